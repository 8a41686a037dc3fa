"""Texts of realistic lengths and word frequencies, the same on every run."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
# Median tokens of what people ask and of what they are answered; lengths are spread log-normally around them.
QUESTION_TOKENS, ANSWER_TOKENS, SPREAD = 60, 180, 0.7
MOST_TOKENS = 2_000
# Of the words below, in English prose by the product's usual tokenizer.
TOKENS_A_WORD = 1.75
_WORDS = 30_000


@cache
def vocabulary() -> tuple[str, ...]:
    """30,000 words, the most frequent first: those of the project's documents, then made-up ones for the long tail."""
    known: Counter[str] = Counter()
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        known.update(re.findall(r"[a-z]{2,}", path.read_text().lower()))
    numbers = random.Random(3)
    syllables = [
        first + last for first in "bcdfghklmnprstvz" for last in ("a", "e", "i", "o", "u", "an", "or")
    ]
    made = dict.fromkeys(word for word, _ in sorted(known.items(), key=lambda item: (-item[1], item[0])))
    while len(made) < _WORDS:
        made["".join(numbers.choices(syllables, k=numbers.randint(2, 4)))] = None
    return tuple(made)


def write_text(numbers: random.Random, words: int) -> str:
    """Sentences of 6 to 16 words whose ranks are log-uniform, which is Zipf's law with exponent 1."""
    known = vocabulary()
    chosen = [known[int(len(known) ** numbers.random()) - 1] for _ in range(max(1, words))]
    sentences = []
    while chosen:
        length = numbers.randint(6, 16)
        sentences.append(" ".join(chosen[:length]).capitalize() + ".")
        chosen = chosen[length:]
    return " ".join(sentences)


def write_message(numbers: random.Random, *, median_tokens: int) -> str:
    """A message of about ``median_tokens``, sometimes several times as long."""
    tokens = min(MOST_TOKENS, numbers.lognormvariate(math.log(median_tokens), SPREAD))
    return write_text(numbers, round(tokens / TOKENS_A_WORD))


def write_turns(numbers: random.Random, count: int) -> list[tuple[str, str]]:
    """Questions and answers."""
    return [
        (
            write_message(numbers, median_tokens=QUESTION_TOKENS),
            write_message(numbers, median_tokens=ANSWER_TOKENS),
        )
        for _ in range(count)
    ]
