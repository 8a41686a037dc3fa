"""Counts already made, so that building a view never tokenizes the same text twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

# At most this many characters of text are held; Python keeps them in 1 to 4 bytes each.
MOST_CHARACTERS = 8_000_000
# What an entry costs beside its text, in characters: without it, millions of tiny texts would be held.
_ENTRY_CHARACTERS = 100


class CountMemo:
    """Remembers ``count`` of the texts asked for most recently. Safe to share between threads."""

    def __init__(self, count: Callable[[str], int], *, most_characters: int = MOST_CHARACTERS) -> None:
        self._count = count
        self._most = most_characters
        self._held = 0
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def count(self, text: str) -> int:
        """The count of ``text``; made at most once while it is remembered (twice when two threads ask at once)."""
        with self._lock:
            known = self._counts.get(text)
            if known is not None:
                self._counts.move_to_end(text)
                return known
        counted = self._count(text)
        # One text that takes an eighth of the room would push out a whole conversation for a count made in milliseconds.
        if len(text) <= self._most // 8:
            self._remember(text, counted)
        return counted

    def _remember(self, text: str, counted: int) -> None:
        with self._lock:
            if text not in self._counts:
                self._held += len(text) + _ENTRY_CHARACTERS
            self._counts[text] = counted
            while self._held > self._most:
                oldest, _ = self._counts.popitem(last=False)
                self._held -= len(oldest) + _ENTRY_CHARACTERS
