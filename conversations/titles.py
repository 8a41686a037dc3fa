"""Titles without a model: what a conversation is called from its first message on."""

from __future__ import annotations

TITLE_CHARACTERS = 60  # about what a sidebar shows


def derive_title(text: str) -> str:
    """A title from the first line of a message: whole words, at most 60 characters, never empty for visible text."""
    line = " ".join(text.strip().split("\n", 1)[0].lstrip("#>*-` ").split()) or " ".join(text.split())
    if len(line) <= TITLE_CHARACTERS:
        return line
    cut = line[:TITLE_CHARACTERS].rsplit(" ", 1)[0]
    return f"{cut.rstrip('.,;:')}…"
