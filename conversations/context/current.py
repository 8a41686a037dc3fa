"""Fitting the turn that is being answered: its question and arguments whole, its tool results within one limit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from conversations.context.exchanges import keep_whole_exchanges
from conversations.context.forms import RESULT_CHARACTERS, Shaped, shape_first_sent
from conversations.context.tool_results import ResultDoesNotFit
from conversations.context.types import TokenCounter, TranscriptMessage


@dataclass(frozen=True, slots=True)
class Current:
    """The turn as it is sent. ``excerpt``: characters each result was limited to; None when none had to give way."""

    shaped: tuple[Shaped, ...]
    tokens: int
    excerpt: int | None


def fit_current(
    *,
    messages: Sequence[TranscriptMessage],
    room: int,
    counter: TokenCounter,
    used_ids: Collection[str] = (),
) -> Current | None:
    """The current turn within ``room`` tokens, or None when even its indispensable parts are larger.

    ``messages`` begin with the question; ``used_ids`` are those of calls in the history before it. All results share one limit, the largest that fits, found by binary search
    from 12,000 characters down to 0. Every call keeps its id, its arguments and its result.
    """
    whole = (messages[0], *keep_whole_exchanges(messages[1:], used_ids=used_ids))
    first = _shape(whole, RESULT_CHARACTERS, counter)
    if first is not None and first.tokens <= room:
        return Current(first.shaped, first.tokens, None)
    if not any(message.role == "tool" for message in whole):
        return None
    best: Current | None = None
    low, high = 0, RESULT_CHARACTERS
    while low <= high:
        middle = (low + high) // 2
        tried = _shape(whole, middle, counter)
        if tried is not None and tried.tokens <= room:
            best, low = tried, middle + 1
        elif tried is None:
            low = middle + 1  # some result's metadata alone is larger than this limit
        else:
            high = middle - 1
    return best


def _shape(messages: Sequence[TranscriptMessage], limit: int, counter: TokenCounter) -> Current | None:
    """Every result at ``limit``, and prose between calls too; None when a result cannot be cut that short."""
    try:
        shaped = tuple(shape_first_sent(message, counter=counter, excerpt=limit) for message in messages)
    except ResultDoesNotFit:
        return None
    return Current(shaped, sum(item.tokens for item in shaped), limit)
