"""Which old messages a question needs: reading the question, scoring what the index found, and where to stop.

Scores are BM25 over a message's own words with its neighbours' words at half weight, plus the closeness of static vectors
at a low weight. Every number was chosen on five long dialogues (the retention benchmark) where the result is flat around
it, so none is finely tuned.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conversations.context.common_words import COURTESY_LEXEMES, FUNCTION_LEXEMES
from conversations.context.words import Word, query_words, quote_lexeme

Floats = NDArray[np.float64]

# More words than this are never looked for: each costs a comparison with every entry that is scanned.
MOST_TERMS = 14

# BM25: how soon repetition stops counting, and how much long messages are held back. The usual 1.2 and 0.75 are for
# documents; messages are short.
_SATURATION, _LENGTH_WEIGHT = 1.0, 0.5
# A word in the message before or after counts this much of one in the message itself: without it 4 questions in 100 lose evidence.
_NEIGHBOUR_WEIGHT = 0.5
# Under these a question has nothing to do with what was said: the best message must hold this share of the question's
# weight, and this share of what one word that occurs once would weigh.
_LEAST_COVERAGE, _LEAST_WEIGHT = 0.15, 0.5

# Bits of one term in ``Match.mask``: how often the message has it, as the index tells it apart.
BITS_PER_TERM = 2
_OCCURRENCES = np.array([0.0, 1.0, 2.0, 4.0])


@dataclass(frozen=True, slots=True)
class RecallOptions:
    """``falloff``: passages are taken until their score falls under this share of the best; 0 fills all the room.

    ``vector_weight``: how much the closest vector counts beside the best words; 0 goes by words alone.
    """

    falloff: float = 0.5
    vector_weight: float = 0.4


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """``terms``: lexemes of which any may occur. ``phrases``: runs of lexemes that must occur. ``excluded``: must not."""

    text: str
    terms: tuple[str, ...]
    phrases: tuple[tuple[Word, ...], ...] = ()
    excluded: tuple[tuple[Word, ...], ...] = ()


class Match(NamedTuple):
    """What the index says about one message. ``mask``: two bits for each term, the first term lowest: 0 absent, 1 once,
    2 two or three times, 3 oftener. ``closeness``: cosine to the question's vector, None without one. ``wanted``: False
    for a message that only stands beside others: the search excludes it."""

    seq: int
    length: int
    mask: int
    closeness: float | None = None
    wanted: bool = True


class Ranked(NamedTuple):
    """``score``: 1 for the best message. ``matched``: whether it or a neighbour has any word of the question."""

    seq: int
    score: float
    matched: bool


def read_question(text: str) -> SearchQuery:
    """A message as a query: its words but for function words. No terms when they name no subject: "thanks!"."""
    terms = _select_terms(query_words(text))
    return SearchQuery(text=text, terms=() if COURTESY_LEXEMES.issuperset(terms) else terms)


_OPERATORS = re.compile(
    r"""(?P<minus>(?<!\S)-)?(?:["“”„«](?P<phrase>[^"“”„«»]+)["“”»]|(?P<word>[^\s"“”„«»]+))"""
)


def read_search(text: str) -> SearchQuery:
    """A typed search: ``"quoted words"`` must occur together, ``-word`` and ``-"words"`` must not, the rest may."""
    phrases: list[tuple[Word, ...]] = []
    excluded: list[tuple[Word, ...]] = []
    wanted: list[str] = []
    for found in _OPERATORS.finditer(text):
        given = found["phrase"] or found["word"]
        words = tuple(query_words(given))
        if found["minus"] and words:
            excluded.append(words)
        else:
            wanted.append(given)
            if found["phrase"] and words:
                phrases.append(words)
    plain = " ".join(wanted)
    words = query_words(plain)
    quoted = [word.lexeme for phrase in phrases for word in phrase]
    # Function words count where they are quoted, and for who searches for nothing else.
    telling = [*_select_terms(words), *quoted] or [word.lexeme for word in words]
    terms = tuple(dict.fromkeys(telling))[:MOST_TERMS]
    return SearchQuery(text=plain, terms=terms, phrases=tuple(phrases), excluded=tuple(excluded))


def _select_terms(words: Iterable[Word]) -> tuple[str, ...]:
    """Distinct lexemes in order, without function words; of too many, those with digits and the longest."""
    chosen = dict.fromkeys(word.lexeme for word in words if word.lexeme not in FUNCTION_LEXEMES)
    by_worth = sorted(chosen, key=lambda lexeme: (not any(map(str.isdigit, lexeme)), -len(lexeme)))
    kept = set(by_worth[:MOST_TERMS])
    return tuple(lexeme for lexeme in chosen if lexeme in kept)


def render_phrase(words: Sequence[Word]) -> str:
    """A phrase as a tsquery: the words at their distances, all lexemes that share a place."""
    places: dict[int, list[str]] = {}
    for word in words:
        places.setdefault(word.position, []).append(quote_lexeme(word.lexeme))
    rendered, before = "", 0
    for position in sorted(places):
        here = places[position]
        group = here[0] if len(here) == 1 else f"({' & '.join(here)})"
        rendered += f" <{position - before}> {group}" if rendered else group
        before = position
    return rendered


def weigh_terms(*, sample: Sequence[Match], terms: int) -> tuple[float, ...]:
    """The weight of each term: ln(1 + (N − n + ½) / (n + ½)), where n of the N messages in ``sample`` have it."""
    having = np.count_nonzero(_occurrences(sample, terms), axis=0)
    return tuple(weigh_term(total=len(sample), having=int(count)) for count in having)


def weigh_term(*, total: int, having: int) -> float:
    """The weight of a term that ``having`` of ``total`` messages have."""
    return math.log(1 + (max(total - having, 0) + 0.5) / (having + 0.5))


def rank_matches(
    *, matches: Sequence[Match], weights: Sequence[float], sample_size: int, options: RecallOptions
) -> tuple[tuple[Ranked, ...], bool]:
    """All wanted messages, best first, and whether the best of them is worth showing unasked.

    ``matches``: in order of seq; neighbours are those whose seqs differ by one. ``weights``: see :func:`weigh_terms`;
    ``sample_size``: of how many messages they come.
    """
    if not matches:
        return (), False
    wanted = np.array([match.wanted for match in matches])
    lexical, held = _score_words(matches, np.asarray(weights))
    scores = _fuse(matches, lexical, wanted, options.vector_weight)
    # The matches come in order of seq: of equal scores the newest is first.
    newest_first = np.flatnonzero(wanted)[::-1]
    order = newest_first[np.argsort(-scores[newest_first], kind="stable")]
    best = float(scores[order[0]]) if order.size else 0.0
    shares = scores[order] / best if best else scores[order]
    seqs = np.array([match.seq for match in matches])
    ranked = tuple(map(Ranked, seqs[order].tolist(), shares.tolist(), (lexical[order] > 0).tolist()))
    most_held = float(np.max(held, where=wanted, initial=0.0))
    once = weigh_term(total=sample_size, having=1)
    telling = most_held > 0 and most_held >= max(_LEAST_COVERAGE * sum(weights), _LEAST_WEIGHT * once)
    return ranked, telling


def _score_words(matches: Sequence[Match], weights: Floats) -> tuple[Floats, Floats]:
    """For each message its BM25, and the plain sum of the weights of the terms it or a neighbour has."""
    times = _occurrences(matches, len(weights))
    seqs = np.array([match.seq for match in matches])
    adjacent = (np.diff(seqs) == 1)[:, np.newaxis]
    beside = np.zeros_like(times)
    beside[1:] += adjacent & (times[:-1] > 0)
    beside[:-1] += adjacent & (times[1:] > 0)
    lengths = np.array([match.length for match in matches], dtype=float)
    norms = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * lengths / (lengths.mean() or 1.0))
    often = times + _NEIGHBOUR_WEIGHT * beside
    lexical = often / (often + norms[:, np.newaxis]) @ (weights * (_SATURATION + 1))
    held = np.where(times > 0, 1.0, np.where(beside > 0, _NEIGHBOUR_WEIGHT, 0.0)) @ weights
    return lexical, held


def _fuse(
    matches: Sequence[Match], lexical: Floats, wanted: NDArray[np.bool_], vector_weight: float
) -> Floats:
    """Both scores as shares of their best, added. Ranks alone would lose by how much the best is better: measured on the
    same dialogues, adding shares keeps about one question in a hundred more than adding reciprocal ranks."""
    best = np.max(lexical, where=wanted, initial=0.0)
    scores = lexical / best if best else np.zeros_like(lexical)
    close = np.array([match.closeness or 0.0 for match in matches])
    closest = np.max(close, where=wanted, initial=0.0)
    return scores + np.maximum(close, 0.0) * (vector_weight / closest) if closest > 0 else scores


def _occurrences(matches: Sequence[Match], terms: int) -> Floats:
    """How often each message has each term, as far as the index tells it: shape (messages, terms)."""
    masks = np.array([match.mask for match in matches], dtype=np.int64)
    shifts = BITS_PER_TERM * np.arange(terms, dtype=np.int64)
    return _OCCURRENCES[masks[:, np.newaxis] >> shifts & (1 << BITS_PER_TERM) - 1]
