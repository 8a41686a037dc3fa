"""Settings: ``base`` holds what is common, ``dev``, ``test`` and ``prod`` what differs. Values come from ``env``."""
