"""What a long result is made of, in a few lines: so that a model which cannot see it all knows what to ask for.

Nothing here fails on any text, and nothing here is longer than it was allowed to be.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from conversations.context.tool_json import Json, dump_json, read_json
from conversations.context.tool_text import index_headings

Kind = Literal["json", "csv", "markdown", "log", "text"]

# Characters of one line of an outline.
LINE_CHARACTERS = 160
# Above this many characters a text is not parsed as JSON or a table, only looked at line by line.
PARSED_CHARACTERS = 16_000_000

# Levels, fields of one object, and elements of one list that the outline of JSON looks at.
_LEVELS, _FIELDS, _ELEMENTS = 5, 24, 200
_SAMPLE = 24
_HEAD_LINES, _TAIL_LINES, _ERROR_LINES = 3, 3, 8
# Lines by which a table is told from prose, and the share of a log's lines that begin with a time or a level.
_SNIFFED = 20
_LOG_SHARE = 0.5

_ERROR = re.compile(
    r"\b(?:error|errors|fatal|critical|panic|exception|traceback|failed|failure|denied|[A-Z]\w{0,60}(?:Error|Exception))\b",
    re.IGNORECASE,
)
_LOG_LINE = re.compile(
    r"\W{0,3}(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
    r"|(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b)"
)


@dataclass(frozen=True, slots=True)
class Outlined:
    """``structure``: lines, together within the limit that was asked for; ``value``: the JSON, if it is any."""

    kind: Kind
    structure: tuple[str, ...]
    value: dict[str, Json] | list[Json] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A text that is rows of columns. ``rows``: without the header, each with the number of its row from 1."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]

    def row(self, at: int) -> dict[str, Json]:
        """A row by the names of its columns, ``at`` from 0; cells beyond the header are named by their number."""
        names = [
            *self.header,
            *(f"column {place + 1}" for place in range(len(self.header), len(self.rows[at]))),
        ]
        return dict(zip(names, self.rows[at], strict=False))


def outline_text(*, text: str, limit: int) -> Outlined:
    """The kind of ``text`` and its structure in at most ``limit`` characters, one for each line's end included."""
    value = read_json(text) if len(text) <= PARSED_CHARACTERS else None
    if value is not None:
        return Outlined("json", _bound(outline_json(value=value), limit), value)
    table = read_table(text)
    if table is not None:
        return Outlined("csv", _bound(_outline_table(table), limit))
    headings = index_headings(text)
    if len(headings) >= 2:
        lines = [f"{_count_lines(text):,} lines, {len(headings):,} headings, each with its line:", *headings]
        return Outlined("markdown", _bound(lines, limit))
    kind: Kind = "log" if _is_log(text) else "text"
    return Outlined(kind, _bound(_outline_lines(text), limit))


def outline_json(*, value: Json) -> list[str]:
    """A line for each path, ``$.rows[*].id: integer, e.g. 17``, outer ones first. Elements of a list share one path."""
    lines: list[str] = []
    level: list[tuple[str, list[Json]]] = [("$", [value])]
    for _ in range(_LEVELS):
        deeper: list[tuple[str, list[Json]]] = []
        for path, values in level[: _FIELDS * 4]:
            lines.append(f"{path}: {_describe(values)}")
            deeper.extend(_descend(path, values))
        level = deeper
    if level:
        lines.append("(deeper levels are left out)")
    return lines


def read_table(text: str) -> Table | None:
    """``text`` as a table with a header, or None: every row of the first twenty has as many columns as the first, of two
    at least, and nearly all of the others too."""
    if len(text) > PARSED_CHARACTERS:
        return None
    # A line feed alone ends a line here: nobody counts form feeds as rows.
    start = text[:20_000].lstrip("\ufeff\n\r")
    first = start.split("\n", 1)[0]
    for delimiter in sorted(",;\t|", key=first.count, reverse=True):
        if not first.count(delimiter):
            return None
        head = _read_rows(start, delimiter, most=_SNIFFED)
        width = len(head[0]) if head else 0
        if (
            len(head) < 3
            or width < 2
            or any(len(row) != width for row in head[: min(_SNIFFED, len(head)) - 1])
        ):
            continue
        if not all(cell.strip() and len(cell) <= 80 for cell in head[0]):
            continue
        rows = _read_rows(text.lstrip("\ufeff\n\r"), delimiter)
        if sum(len(row) != width for row in rows) * 20 > len(rows):
            continue
        header = tuple(cell.strip() for cell in rows[0])
        return Table(header, rows[1:])
    return None


def show_path(path: str, key: str) -> str:
    """The path of a member of the object at ``path``; keys that are no plain names are quoted."""
    return f"{path}.{key}" if re.fullmatch(r"[A-Za-z_]\w*", key) else f"{path}[{dump_json(key)}]"


def clip_line(text: str, most: int = LINE_CHARACTERS) -> str:
    """``text`` on one line of at most ``most`` characters."""
    line = " ".join(text[: most * 2].split())
    return line if len(line) <= most and len(text) <= most * 2 else line[: most - 1] + "…"


def _bound(lines: Sequence[str], limit: int) -> tuple[str, ...]:
    """As many lines as fit, and a last one that counts the others."""
    kept: list[str] = []
    used = 0
    for at, line in enumerate(lines):
        line = clip_line(line)
        rest = f"({len(lines) - at:,} further lines of this outline are left out)"
        last = at == len(lines) - 1
        if used + len(line) + 1 + (0 if last else len(rest) + 1) > limit:
            if used + len(rest) + 1 <= limit:
                kept.append(rest)
            break
        kept.append(line)
        used += len(line) + 1
    return tuple(kept)


def _describe(values: Sequence[Json]) -> str:
    kinds = Counter(_name_kind(value) for value in values)
    said = " or ".join(kind for kind, _ in kinds.most_common(4))
    details: list[str] = []
    lists = [value for value in values if isinstance(value, list)]
    objects = [value for value in values if isinstance(value, dict)]
    if lists:
        details.append(_count_between([len(item) for item in lists], "element"))
    if objects:
        details.append(_count_between([len(item) for item in objects], "key"))
        if len(objects[0]) > _FIELDS or len(objects) == 1:
            details.append(", ".join(clip_line(key, _SAMPLE) for key in list(objects[0])[:8]))
    samples = [value for value in values if not isinstance(value, (list, dict)) and value is not None]
    if samples:
        details.append(f"e.g. {_sample(samples[0])}")
    return f"{said}, {'; '.join(details)}" if details else said


def _descend(path: str, values: Sequence[Json]) -> Iterator[tuple[str, list[Json]]]:
    elements: list[Json] = []
    fields: dict[str, list[Json]] = {}
    for value in values:
        if isinstance(value, list):
            elements.extend(value[: max(0, _ELEMENTS - len(elements))])
        elif isinstance(value, dict):
            for key, item in list(value.items())[:_FIELDS]:
                if key in fields or len(fields) < _FIELDS:
                    fields.setdefault(key, []).append(item)
    if elements:
        yield f"{path}[*]", elements
    for key, items in fields.items():
        yield show_path(path, clip_line(key, 60)), items


def _name_kind(value: Json) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "list"
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    return "integer" if isinstance(value, int) else "number"


def _count_between(counts: Sequence[int], noun: str) -> str:
    least, most = min(counts), max(counts)
    number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return f"{number} {noun}{'' if most == 1 else 's'}"


def _sample(value: Json) -> str:
    if isinstance(value, str) and len(value) > _SAMPLE:
        return f"{dump_json(clip_line(value, _SAMPLE))} ({len(value):,} characters)"
    return clip_line(dump_json(value), _SAMPLE * 2)


def _outline_table(table: Table) -> list[str]:
    columns = [
        f"column {number}: {name}{_column_sample(table, number - 1)}"
        for number, name in enumerate(table.header, 1)
    ]
    return [f"{len(table.rows):,} rows below a header of {len(table.header):,} columns", *columns]


def _column_sample(table: Table, at: int) -> str:
    cell = next((row[at] for row in table.rows[:_ELEMENTS] if len(row) > at and row[at].strip()), "")
    return f", e.g. {clip_line(cell, _SAMPLE)}" if cell else ""


def _read_rows(text: str, delimiter: str, most: int | None = None) -> list[list[str]]:
    """The rows that are not empty; none at all for what the reader refuses."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if row:
                rows.append(row)
            if most is not None and len(rows) >= most:
                break
    except csv.Error:
        return []
    return rows


def _outline_lines(text: str) -> list[str]:
    lines = text.split("\n")
    count = _count_lines(text)
    longest = max(len(line) for line in lines)
    found = [f"{count:,} lines, the longest of {longest:,} characters"]
    errors = [(number, line) for number, line in enumerate(lines, 1) if _ERROR.search(line[:2_000])]
    if errors:
        found.append(f"{len(errors):,} lines that speak of an error:")
        found.extend(_number_lines(_both_ends(errors, _ERROR_LINES)))
    spoken = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    found.append("first lines:")
    found.extend(_number_lines(spoken[:_HEAD_LINES]))
    if len(spoken) > _HEAD_LINES:
        found.append("last lines:")
        found.extend(_number_lines(spoken[max(_HEAD_LINES, len(spoken) - _TAIL_LINES) :]))
    return found


def _both_ends(items: Sequence[tuple[int, str]], most: int) -> Iterable[tuple[int, str]]:
    return items if len(items) <= most else (*items[: most - 2], *items[-2:])


def _number_lines(lines: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{number}: {clip_line(line, LINE_CHARACTERS - 12)}" for number, line in lines]


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _is_log(text: str) -> bool:
    lines = [line for line in text[:40_000].split("\n") if line.strip()][:200]
    return len(lines) >= 5 and sum(bool(_LOG_LINE.match(line)) for line in lines) >= _LOG_SHARE * len(lines)
