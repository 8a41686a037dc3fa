"""Conversations: the transcript, the runs that extend it, and the view the model gets of it."""
