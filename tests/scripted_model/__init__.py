"""A model server of the project's own that says what a test tells it to: see ``scripts`` and ``naming``."""

from tests.scripted_model.process import ScriptedModel
from tests.scripted_model.scripts import Script

__all__ = ["Script", "ScriptedModel"]
