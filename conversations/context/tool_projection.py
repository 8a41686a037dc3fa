"""A JSON value at a given size: the same structure, with fewer rows and shorter texts, and a note wherever any is missing.

The size is a knob and not a promise: it grants every collection ``size / 256`` rows and every text ``size / 4`` characters,
so that rows and texts shrink together. Who wants a form of a certain length tries sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import cast

from conversations.context.tool_json import Json, measure_json
from conversations.context.tool_refs import (
    COMPACTION,
    RowRefs,
    find_note_key,
    find_notes,
    is_keyed_rows,
    is_protected,
    read_count,
)
from conversations.context.tool_text import MAX_HEADINGS, index_headings, is_markdown

ROW_SIZE = 256
CHAR_SIZE = 4
HEADING_SIZE = 64
"""Size that buys one row, one character of each text, and one line of an index of headings. The first two are part of
the format's definition; with the third, all 40 headings are there from a text of 640 characters on."""

ROWS_NOTE_CHARS = 160
TEXT_NOTE_CHARS = 60
"""What a note costs by itself. Less than that is not left out: its absence would be longer than it is."""

NOTICE = "Only the first rows are shown. Fetch the rest again before you count or add up."


class OverrunError(Exception):
    """The projection is sure to be longer than its room; the rest was not looked at."""


class ProjectionCache:
    """What is the same at every size: identities of rows and headings of texts. Valid while the value lives."""

    def __init__(self) -> None:
        self.refs = RowRefs()
        self.headings: dict[tuple[int, str], list[str]] = {}


def find_full_size(value: Json) -> int:
    """The smallest size found at which nothing at all is left out."""
    longest_rows = longest_text = 0
    waiting: list[Json] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            longest_text = max(longest_text, len(item))
        elif isinstance(item, (list, dict)):
            longest_rows = max(longest_rows, len(item))
            waiting.extend(item.values() if isinstance(item, dict) else item)
    return max(ROW_SIZE * longest_rows, CHAR_SIZE * longest_text, HEADING_SIZE * MAX_HEADINGS)


def project_json(value: Json, *, size: int, room: int, cache: ProjectionCache) -> Json:
    """``value`` at ``size``; the argument stays as it is.

    A list, or a text inside a list, has no field beside it to carry its note: cut, it becomes
    ``{"data": [...], "data_compaction": {...}}`` or ``{"text": "...", "text_compaction": {...}}``.

    Raises ``OverrunError`` as soon as the result must have more than ``room`` characters.
    """
    return _Projection(size=size, room=room, cache=cache).project(value)


class _Projection:
    def __init__(self, *, size: int, room: int, cache: ProjectionCache) -> None:
        self._rows = size // ROW_SIZE
        self._chars = size // CHAR_SIZE
        self._headings = min(MAX_HEADINGS, size // HEADING_SIZE)
        self._room = room
        self._cache = cache

    def project(self, value: Json) -> Json:
        if isinstance(value, dict) and not is_keyed_rows(value):
            return self._project_object(value)
        kept, note = self._project_field({"": value}, "", None)
        if note is None:
            return kept
        field = "text" if isinstance(value, str) else "data"
        return {field: kept, field + COMPACTION: note}

    def _project_object(self, record: dict[str, Json]) -> dict[str, Json]:
        notes = find_notes(record)
        noted = set(notes.values())
        projected: dict[str, Json] = {}
        for key, value in record.items():
            if key in notes:
                continue
            self._spend(len(key) + 4)
            if key not in noted and is_protected(key, value):
                self._keep(value)
                projected[key] = value
                continue
            note_key = find_note_key(record, key)
            kept, note = self._project_field(record, key, record[note_key] if key in noted else None)
            projected[key] = kept
            if note is not None:
                projected[note_key] = note
        return projected

    def _project_field(self, record: dict[str, Json], key: str, note: Json) -> tuple[Json, Json]:
        """The field's value, and the note that now belongs beside it. ``note``: the one from an earlier pass."""
        value = record[key]
        if isinstance(value, str):
            return self._project_text(value, record, key, note)
        if isinstance(value, list) or note is not None or is_keyed_rows(value):
            return self._project_rows(cast("list[Json] | dict[str, Json]", value), note)
        if isinstance(value, dict):
            return self._project_object(value), None
        self._keep(value)
        return value, None

    def _project_rows(self, rows: list[Json] | dict[str, Json], note: Json) -> tuple[Json, Json]:
        retain = min(len(rows), self._rows)
        if not _is_worth_leaving_out(rows, retain):
            retain = len(rows)
        kept: Json
        if isinstance(rows, dict):
            kept = {}
            for key, row in islice(rows.items(), retain):
                self._spend(len(key) + 4)
                kept[key] = self.project(row)
        else:
            kept = [self.project(row) for row in islice(rows, retain)]
        if retain == len(rows):
            self._keep(note)
            return kept, note
        omitted = len(rows) - retain + read_count(note, "omitted")
        refs = self._cache.refs.omit(rows, start=retain, note=note, spend=self._spend)
        fresh: dict[str, Json] = {"returned": retain + omitted, "retained": retain, "omitted": omitted}
        if refs:
            fresh["omitted_refs"] = refs
        return kept, {**fresh, "notice": NOTICE}

    def _project_text(self, text: str, record: dict[str, Json], key: str, note: Json) -> tuple[Json, Json]:
        retain = len(text) if len(text) - self._chars <= TEXT_NOTE_CHARS else self._chars
        self._spend(retain + 2)
        headings, further = self._index(text, record, key, note)
        shown = headings[: self._headings]
        if retain == len(text) and (note is None or len(shown) == len(headings)):
            self._keep(note)
            return text, note
        fresh: dict[str, Json] = {"omitted_chars": len(text) - retain + read_count(note, "omitted_chars")}
        if headings:
            fresh["headings"] = shown
            fresh["further_headings"] = further + len(headings) - len(shown)
        self._keep(fresh)
        return text[:retain], fresh

    def _index(self, text: str, record: dict[str, Json], key: str, note: Json) -> tuple[list[Json], int]:
        """The headings that may be shown, and how many more the text has."""
        if isinstance(note, dict):
            earlier = note.get("headings")
            return (earlier if isinstance(earlier, list) else []), read_count(note, "further_headings")
        if not is_markdown(cast("Mapping[str, object]", record), key):
            return [], 0
        known = self._cache.headings.get((id(record), key))
        if known is None:
            start = read_count(record, "start_line") or 1
            known = self._cache.headings[id(record), key] = index_headings(text, start_line=start)
        return list(known[:MAX_HEADINGS]), max(0, len(known) - MAX_HEADINGS)

    def _keep(self, value: Json) -> None:
        self._spend(measure_json(value, stop=self._room))

    def _spend(self, count: int) -> None:
        self._room -= count
        if self._room < 0:
            raise OverrunError


def _is_worth_leaving_out(rows: list[Json] | dict[str, Json], start: int) -> bool:
    total = 0
    for row in _rest(rows, start):
        total += measure_json(row, stop=ROWS_NOTE_CHARS) + 1
        if total > ROWS_NOTE_CHARS:
            return True
    return False


def _rest(rows: list[Json] | dict[str, Json], start: int) -> Iterator[Json]:
    return islice(rows.values() if isinstance(rows, dict) else rows, start, None)
