"""The context engine: what the model sees of a conversation. Pure: no Django, no I/O, no clock."""
