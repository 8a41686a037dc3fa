"""The tokens of a long text from a few pieces of it.

Pieces at regular distances miss whatever lies between them. So the whole text is looked at cheaply first, slice by slice
(bytes, spaces and symbols, no tokenizer), slices that look alike are put beside each other, and the tokenizer sees one
of every group: a block of another script in the middle forms groups of its own, however it is placed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# 48 slices of 400 characters stay within 3 % on prose, code, mixed scripts and base64, where 24 of 800 missed it when a
# few thousand characters in the middle differ from the rest. Together they have less than 20,000 characters.
SLICE_CHARACTERS, SAMPLES = 400, 48

_LETTERS_AND_SPACE = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \n" + bytes(range(0x80, 0x100))


@dataclass(frozen=True, slots=True)
class _Slice:
    """``weight``: a rough number of tokens. ``kind``: what it looks like; similar texts sort near to each other."""

    start: int
    weight: float
    kind: tuple[float, ...]


def estimate_long(text: str, *, count: Callable[[str], int]) -> int:
    """About ``count(text)``, for a text of at least ``SLICE_CHARACTERS``, from at most ``SAMPLES`` counted slices."""
    ordered = sorted(_look(text), key=lambda item: item.kind)
    total = sum(item.weight for item in ordered)
    step = total / SAMPLES
    reached, due, ratio = 0.0, step / 2, 0.0
    for item in ordered:
        reached += item.weight
        hits = 0
        while due <= reached and hits < SAMPLES:
            due += step
            hits += 1
        if hits:
            ratio += hits * count(text[item.start : item.start + SLICE_CHARACTERS]) / item.weight
    return round(total * ratio / SAMPLES)


def _look(text: str) -> list[_Slice]:
    """Every slice, in order. A last short one is measured as it is."""
    return [
        _weigh(text[start : start + SLICE_CHARACTERS], start)
        for start in range(0, len(text), SLICE_CHARACTERS)
    ]


def _weigh(piece: str, start: int) -> _Slice:
    """Tokens a character, roughly: 0.22 for prose, 0.2 more for a digit or symbol, 0.4 more in ASCII text without spaces,
    and more for scripts the more bytes UTF-8 needs. Only its ratio to the real count is used, so it need not be right.
    """
    data = piece.encode(errors="replace")
    symbols = len(data.translate(None, _LETTERS_AND_SPACE)) / len(piece)
    spaces = (data.count(b" ") + data.count(b"\n")) / len(piece)
    extra = len(data) / len(piece) - 1
    dense = 0.4 if spaces < 0.05 and extra < 0.5 else 0.0
    rate = 0.22 + dense + symbols * 0.2 + extra * 0.24 + max(0.0, extra - 1) * extra * 0.2
    return _Slice(
        start=start, weight=len(piece) * rate, kind=(round(extra, 1), dense, round(symbols, 1), rate)
    )
