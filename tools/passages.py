"""The parts of a long result that have the words somebody asks for: passages of a text, rows of JSON or a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conversations.context.tool_json import Json, dump_json, measure_json
from conversations.context.words import fold_text, index_words, query_words
from tools.json_path import Found, list_children

# Characters of a passage at most, and of a row; a longer value is looked into instead.
PASSAGE_CHARACTERS, ROW_CHARACTERS = 800, 2_000
# How many candidates of the quick look are looked at word by word.
_CANDIDATES = 300
_MOST_WORDS = 32


@dataclass(frozen=True, slots=True)
class Passage:
    """Characters ``start`` to ``end`` of a text; ``line``: on which the first of them is, from 1."""

    start: int
    end: int
    line: int
    text: str


def rank_texts(*, texts: Sequence[str], query: str) -> list[int]:
    """Indices of the texts that have words of the query, best first: many different and rare words before few."""
    wanted = list(dict.fromkeys(word.lexeme for word in query_words(query)))[:_MOST_WORDS]
    if not wanted:
        return []
    # Nearly every form of a word has its lexeme in it letter by letter, but for the last one ("story", "stories").
    stems = {lexeme: lexeme[:-1] if len(lexeme) > 4 else lexeme for lexeme in wanted}
    rough: list[tuple[int, list[str]]] = []
    frequency: Counter[str] = Counter()
    for at, text in enumerate(texts):
        folded = fold_text(text).replace(",", "")
        hits = [lexeme for lexeme, stem in stems.items() if stem in folded]
        if hits:
            rough.append((at, hits))
            frequency.update(hits)
    weight = {lexeme: math.log(1 + len(texts) / (1 + frequency[lexeme])) for lexeme in wanted}
    rough.sort(key=lambda item: (-sum(weight[lexeme] for lexeme in item[1]), item[0]))
    scored: list[tuple[float, int]] = []
    for at, _ in rough[:_CANDIDATES]:
        present = Counter(word.lexeme for word in index_words(texts[at]))
        score = sum(
            weight[lexeme] * (1 + 0.1 * min(present[lexeme], 4)) for lexeme in wanted if present[lexeme]
        )
        if score:
            scored.append((-score, at))
    return [at for _, at in sorted(scored)]


def split_passages(text: str) -> list[Passage]:
    """``text`` in pieces of at most 800 characters that together are all of it, cut between lines where that is possible."""
    passages: list[Passage] = []
    start, line = 0, 1
    while start < len(text):
        end = min(len(text), start + PASSAGE_CHARACTERS)
        if end < len(text):
            cut = _find_cut(text, start, end)
            end = cut if cut > start else end
        piece = text[start:end]
        passages.append(Passage(start, end, line, piece))
        line += piece.count("\n")
        start = end
    return passages


def split_rows(value: Json) -> list[Found]:
    """The rows of a document: every element of a list and every field outside of one, as large as 2,000 characters allow;
    what is larger is split further, and a text that is larger into passages, with their ranges in the path."""
    rows: list[Found] = []
    waiting: list[tuple[Found, bool]] = [(Found("$", value), False)]
    while waiting:
        found, is_row = waiting.pop()
        inner = found.value
        if is_row and measure_json(inner, stop=ROW_CHARACTERS) <= ROW_CHARACTERS:
            rows.append(found)
        elif isinstance(inner, str):
            rows.extend(
                Found(f"{found.path}[{passage.start}:{passage.end}]", passage.text)
                for passage in split_passages(inner)
            )
        elif isinstance(inner, (dict, list)):
            waiting.extend(
                (child, isinstance(inner, list) or _is_leaf(child))
                for child in reversed(list_children(found))
            )
        else:
            rows.append(found)
    return rows


def row_text(found: Found) -> str:
    """What of a row is looked at: its keys and values, and the last key of its path."""
    return f"{found.path.rsplit('.', 1)[-1]} {' '.join(_words(found.value))}"


def _find_cut(text: str, start: int, end: int) -> int:
    """Behind the last empty line, line, sentence or space in the second half of the piece; 0 for none."""
    middle = start + PASSAGE_CHARACTERS // 2
    for mark in ("\n\n", "\n", ". ", " "):
        at = text.rfind(mark, middle, end)
        if at >= 0:
            return at + len(mark)
    return 0


def _is_leaf(found: Found) -> bool:
    return not isinstance(found.value, (dict, list))


def _words(value: Json) -> Iterator[str]:
    waiting: list[Json] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield from item
            waiting.extend(reversed(list(item.values())))
        elif isinstance(item, list):
            waiting.extend(reversed(item))
        elif isinstance(item, str):
            yield item
        elif item is not None:
            yield dump_json(item)
