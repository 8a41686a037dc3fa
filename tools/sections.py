"""A named part of a text: what stands under a heading, some of its lines, one column of a table."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from conversations.context.tool_text import index_headings

LINES = re.compile(r"(?:lines?\s*)?(\d{1,9})\s*(?:-|–|—|\.\.|:|to)\s*(\d{1,9})", re.IGNORECASE)

_MARKUP = re.compile(r"[*_`~#\[\]]+|\([^)\s]*://[^)\s]*\)")
_ANCHOR = re.compile(r"\s*\{#[^}]*\}\s*$|\s+#+\s*$")


@dataclass(frozen=True, slots=True)
class Heading:
    """``line``: from 1. ``level``: 1 to 6. ``number``: which heading of the text it is, from 1."""

    number: int
    line: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """Lines ``first`` to ``last`` of a text, from 1, and the characters ``start`` to ``end`` at which they are."""

    first: int
    last: int
    start: int
    end: int


class SectionError(ValueError):
    """No such part; the text says which ones there are."""


def find_headings(text: str) -> list[Heading]:
    """The headings of markdown, code in fences left aside."""
    lines = text.split("\n")
    headings: list[Heading] = []
    for number, entry in enumerate(index_headings(text), 1):
        line = int(entry.split(":", 1)[0])
        marked = lines[line - 1].strip()
        level = len(marked) - len(marked.lstrip("#"))
        headings.append(Heading(number, line, level, _ANCHOR.sub("", marked[level:]).strip()))
    return headings


def find_section(*, text: str, section: str) -> Span:
    """The lines of a range such as ``120-180``, or from a heading to the next one that is not below it.

    ``section``: the heading's words, its beginning or a part of it, in any case and without markup; or its number among the
    headings. Raises ``SectionError``.
    """
    if lines := LINES.fullmatch(section.strip()):
        return _span_lines(text, int(lines[1]), int(lines[2]))
    headings = find_headings(text)
    if not headings:
        raise SectionError("This result has no headings. Give a range of lines such as 120-180.")
    chosen = _choose(headings, section)
    following = (heading.line for heading in headings[chosen.number :] if heading.level <= chosen.level)
    return _span_lines(text, chosen.line, next(following, text.count("\n") + 2) - 1)


def fold_heading(text: str) -> str:
    """Words alone, in one case."""
    plain = unicodedata.normalize("NFKC", _MARKUP.sub("", text)).casefold()
    return " ".join(plain.split()).strip(" :.")


def _choose(headings: list[Heading], section: str) -> Heading:
    wanted = fold_heading(section)
    folded = [(heading, fold_heading(heading.text)) for heading in headings]
    exact = [heading for heading, name in folded if name == wanted]
    # Two headings of one name: the first is as good as any, and its lines are told.
    if exact:
        return exact[0]
    if wanted.isdecimal() and len(wanted) < 9 and 1 <= int(wanted) <= len(headings):
        return headings[int(wanted) - 1]
    starting = [heading for heading, name in folded if wanted and name.startswith(wanted)]
    containing = [heading for heading, name in folded if wanted and wanted in name]
    for found in (starting, containing):
        if len(found) == 1:
            return found[0]
        if found:
            raise SectionError(f"Several headings fit: {_list(found)}. Give the number of one.")
    raise SectionError(f"There is no such heading. The headings are: {_list(headings)}.")


def _list(headings: list[Heading], most: int = 30) -> str:
    shown = "; ".join(f"{heading.number} {heading.text[:80]}" for heading in headings[:most])
    return shown if len(headings) <= most else f"{shown}; and {len(headings) - most:,} more"


def _span_lines(text: str, first: int, last: int) -> Span:
    count = text.count("\n") + (not text.endswith("\n") or not text)
    if first < 1 or last < first or first > count:
        raise SectionError(
            f"This result has the lines 1 to {count:,}; give a range of these, such as 1-{min(count, 60)}."
        )
    last = min(last, count)
    start = 0
    for _ in range(first - 1):
        start = text.index("\n", start) + 1
    end = start
    for _ in range(last - first + 1):
        end = text.find("\n", end) + 1
        if not end:
            return Span(first, last, start, len(text))
    return Span(first, last, start, end)
