"""Telling reasoning from answer when a model writes both into one text, between ``<think>`` and ``</think>``.

Tags may be split over any number of chunks, so the end of a text that could still become a tag is held back.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentx.llm.messages import ContentDelta, ReasoningDelta

OPEN, CLOSE = "<think>", "</think>"


class ThinkSplitter:
    """Feed it text as it comes; it gives content and reasoning apart. The same for every way to cut the text."""

    def __init__(self) -> None:
        self._held = ""
        self._thinking = False
        self._after_block = False

    def feed(self, text: str) -> Iterator[ContentDelta | ReasoningDelta]:
        """What is certain so far."""
        if not (self._held or self._thinking or self._after_block) and "<" not in text:
            if text:  # nearly every piece of nearly every answer
                yield ContentDelta(text)
            return
        self._held += text
        while self._held:
            tag = CLOSE if self._thinking else OPEN
            found = self._held.find(tag)
            if found >= 0:
                yield from self._give(self._held[:found])
                self._held = self._held[found + len(tag) :]
                self._after_block = self._thinking
                self._thinking = not self._thinking
                continue
            keep = _tag_beginning_at_end(self._held, tag)
            ready = self._held[: len(self._held) - keep]
            self._held = self._held[len(self._held) - keep :]
            yield from self._give(ready)
            return

    def finish(self) -> Iterator[ContentDelta | ReasoningDelta]:
        """What was held back, now that nothing follows. An unclosed block stays reasoning."""
        rest, self._held = self._held, ""
        yield from self._give(rest)

    def _give(self, text: str) -> Iterator[ContentDelta | ReasoningDelta]:
        if self._thinking:
            if text:
                yield ReasoningDelta(text)
            return
        if self._after_block:  # the blank lines between a think block and the answer belong to neither
            text = text.lstrip()
            self._after_block = not text
        if text:
            yield ContentDelta(text)


def _tag_beginning_at_end(text: str, tag: str) -> int:
    """How many characters at the end of ``text`` are the beginning of ``tag``."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0
