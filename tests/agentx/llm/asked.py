"""A profile without a database, for tests of what the sources besides it say."""

from __future__ import annotations

from agentx.llm.facts import ModelProfile
from agentx.llm.profiles import resolve_profile


def profile_for(model: str, *, reported_window: int | None = None) -> ModelProfile:
    """What is known of a model that has no record."""
    return resolve_profile(model=model, override=None, reported=reported_window, learned=None)
