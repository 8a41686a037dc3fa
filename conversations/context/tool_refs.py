"""What stays of rows that are left out: the fields by which they can be named and fetched again.

The fields of all omitted rows are written as columns, each value once, and runs of consecutive numbers as their first and
last. Five thousand rows that are numbered through cost a line and not half the window, and nothing that names a row is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeGuard

from conversations.context.tool_json import Json, dump_json, measure_json

COMPACTION = "_compaction"

_NAMES = frozenset(
    (
        "id",
        "ids",
        "path",
        "file_path",
        "filepath",
        "file_name",
        "filename",
        "url",
        "date",
        "month",
        "filters",
        "source",
        "sources",
        "ref",
        "refs",
        "source_ref",
        "source_refs",
    )
)
_ENDINGS = ("_id", "_ids", "_date")
_KEYED_MEMBERS = 16
_RUN_CHARS = 200
_REFERENCE_CHARS = 2_000
_SOURCES = ("source", "ref")
_TEXT_NOTE = frozenset(("omitted_chars", "headings", "further_headings"))
_ROWS_NOTE = frozenset(("returned", "retained", "omitted", "omitted_refs", "notice"))

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NUMBERED = re.compile(r" \([0-9]+\)\Z")
_TRAILING_NUMBER = re.compile(r"(.*?)([0-9]{1,15})", re.DOTALL)


@lru_cache(maxsize=4_096)
def is_identity(key: str) -> bool:
    """Whether the field names its row, its place, its time or a total, in snake or camel case."""
    name = _plain_name(key)
    return name in _NAMES or name.endswith(_ENDINGS) or "total" in name


def _plain_name(key: str) -> str:
    return _HUMP.sub("_", _NUMBERED.sub("", key)).replace("-", "_").replace(" ", "_").lower()


def is_protected(key: str, value: Json) -> bool:
    """Whether the field is passed on untouched, whatever its size.

    Only sources that are objects and long are not: they are the material itself, and their own identities stay.
    """
    if not is_identity(key):
        return key.lower() == "frontmatter"
    if not isinstance(value, (dict, list)) or not _plain_name(key).startswith(_SOURCES):
        return True
    objects = isinstance(value, dict) or any(isinstance(item, dict) for item in value)
    return not objects or measure_json(value, stop=_REFERENCE_CHARS) <= _REFERENCE_CHARS


def is_keyed_rows(value: Json) -> TypeGuard[dict[str, Json]]:
    """Whether an object is a collection whose keys name the rows: more than 16 members, all of them objects."""
    return (
        isinstance(value, dict)
        and len(value) > _KEYED_MEMBERS
        and all(isinstance(member, dict) for member in value.values())
        and not any(is_identity(key) or COMPACTION in key for key in value)
    )


def find_note_key(record: dict[str, Json], field: str) -> str:
    """Where the note about a cut ``field`` stands or may be put: ``<field>_compaction``, or the next free name."""
    key = field + COMPACTION
    while key in record and not is_note(record[key], record[field]):
        key += "_"
    return key


def find_notes(record: dict[str, Json]) -> dict[str, str]:
    """Keys of the notes that ``record`` holds about its own fields, and those fields."""
    notes: dict[str, str] = {}
    for key in record:
        if COMPACTION not in key:
            continue
        stem = key.rstrip("_")
        field = stem.removesuffix(COMPACTION)
        if field != stem and field in record and find_note_key(record, field) == key:
            notes[key] = field
    return notes


def is_note(note: Json, value: Json) -> bool:
    """Whether ``note`` is one of ours about ``value``. Figures that do not add up are somebody else's."""
    if not isinstance(note, dict):
        return False
    if isinstance(value, str):
        headings = note.get("headings", [])
        return (
            note.keys() <= _TEXT_NOTE and read_count(note, "omitted_chars") > 0 and isinstance(headings, list)
        )
    if not isinstance(value, (list, dict)) or not note.keys() <= _ROWS_NOTE:
        return False
    omitted = read_count(note, "omitted")
    refs = note.get("omitted_refs", {})
    return (
        omitted > 0
        and note.get("retained") == len(value)
        and note.get("returned") == len(value) + omitted
        and isinstance(refs, dict)
        and all(isinstance(units, list) for units in refs.values())
    )


def read_count(note: Json, key: str) -> int:
    """A figure of an earlier note, or 0."""
    value = note.get(key) if isinstance(note, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def gather_identities(value: Json, *, column: str = "") -> list[tuple[str, Json]]:
    """Every identity in ``value`` at any depth, as (dotted column name, value) in source order."""
    found: list[tuple[str, Json]] = []
    _gather(value, column, found)
    return found


def _gather(value: Json, column: str, found: list[tuple[str, Json]]) -> None:
    if isinstance(value, list):
        for item in value:
            if isinstance(item, (dict, list)):
                _gather(item, column, found)
        return
    if not isinstance(value, dict):
        return
    notes = find_notes(value)
    keyed = is_keyed_rows(value)
    for key, item in value.items():
        if keyed:
            found.append((_join(column, "key"), key))
        if key in notes:
            found.extend((_join(_join(column, notes[key]), name), unit) for name, unit in _read_refs(item))
        elif is_identity(key) and is_protected(key, item):
            _add(_join(column, key), item, found)
        elif isinstance(item, (dict, list)):
            _gather(item, column if keyed else _join(column, key), found)


def _join(column: str, key: str) -> str:
    return f"{column}.{key}" if column else key


def _add(column: str, value: Json, found: list[tuple[str, Json]]) -> None:
    if isinstance(value, list):
        for item in value:
            _add(column, item, found)
    elif value is not None and value != "" and value != {}:
        found.append((column, value))


def _read_refs(note: Json) -> list[tuple[str, Json]]:
    refs = note.get("omitted_refs") if isinstance(note, dict) else None
    if not isinstance(refs, dict):
        return []
    return [(name, unit) for name, units in refs.items() if isinstance(units, list) for unit in units]


class RowRefs:
    """The identities of every row of every collection, gathered once for all the sizes that are tried.

    Collections are told apart by object, so they must stay alive while this does.
    """

    def __init__(self) -> None:
        self._known: dict[int, list[list[_Ref] | None]] = {}
        self._columns: dict[tuple[int, int], dict[str, Json]] = {}

    def omit(
        self, rows: list[Json] | dict[str, Json], *, start: int, note: Json, spend: Callable[[int], None]
    ) -> dict[str, Json]:
        """The columns of the rows from ``start`` on, followed by what an earlier ``note`` had left out.

        ``spend`` is told of characters as soon as they are sure to be written, and may raise to stop the work.
        """
        done = self._columns.get((id(rows), start))
        if done is not None:
            spend(sum(len(name) for name in done))
            return done
        known = self._known.setdefault(id(rows), [None] * len(rows))
        columns: dict[str, _Column] = {}
        members = list(rows.items()) if isinstance(rows, dict) else rows
        for index in range(start, len(rows)):
            refs = known[index]
            if refs is None:
                refs = known[index] = _name_row(members[index])
            for ref in refs:
                _column(columns, ref.column).add(ref, spend)
        for name, unit in _read_refs(note):
            _column(columns, name).add(_read_ref(name, unit), spend)
        done = {name: column.close(spend) for name, column in columns.items()}
        self._columns[id(rows), start] = done
        return done


def _name_row(member: Json | tuple[str, Json]) -> list[_Ref]:
    named: list[tuple[str, Json]] = []
    if isinstance(member, tuple):
        named.append(("key", member[0]))
        member = member[1]
    return [_read_ref(column, value) for column, value in [*named, *gather_identities(member)]]


def _column(columns: dict[str, _Column], name: str) -> _Column:
    column = columns.get(name)
    if column is None:
        column = columns[name] = _Column()
    return column


@dataclass(slots=True)
class _Run:
    """Consecutive numbers behind one prefix. ``pad``: digits with leading zeros, or 0. ``step``: 0 for a single one."""

    prefix: str | None  # None for whole numbers
    pad: int
    first: int
    last: int
    step: int = 0

    def write(self, number: int) -> Json:
        return number if self.prefix is None else f"{self.prefix}{str(number).zfill(self.pad)}"

    def join(self, other: _Run) -> bool:
        """Take in what follows directly, in the same direction; False where it does not."""
        step = other.first - self.last
        if other.prefix != self.prefix or step not in (1, -1) or step == -self.step or other.step == -step:
            return False
        if self.pad != other.pad and any(self.write(n) != other.write(n) for n in (other.first, other.last)):
            return False
        self.last, self.step = other.last, step
        return True

    def units(self) -> list[Json]:
        """One object for the run, or its members where those are shorter."""
        count = abs(self.last - self.first) + 1
        run: Json = {"first": self.write(self.first), "last": self.write(self.last), "count": count}
        if count * (len(dump_json(self.write(self.first))) + 1) > len(dump_json(run)) * 2:
            return [run]
        members: list[Json] = [self.write(self.first + self.step * place) for place in range(count)]
        return [run] if len(dump_json(members)) - 2 > len(dump_json(run)) else members


@dataclass(frozen=True, slots=True)
class _Ref:
    """One identity, read once. ``key`` tells values apart that Python holds equal, such as 1 and true."""

    column: str
    value: Json
    key: tuple[type, Json]
    run: _Run | None


class _Column:
    """The distinct values of one field, in the order of the rows."""

    def __init__(self) -> None:
        self._units: list[Json] = []
        self._seen: set[tuple[type, Json]] = set()
        self._run: _Run | None = None

    def add(self, ref: _Ref, spend: Callable[[int], None]) -> None:
        if ref.key in self._seen:
            return
        self._seen.add(ref.key)
        if ref.run is None:
            self._flush(spend)
            self._units.append(ref.value)
            spend(len(dump_json(ref.value)) + 1)
        elif self._run is None or not self._run.join(ref.run):
            self._flush(spend)
            self._run = replace(ref.run)

    def close(self, spend: Callable[[int], None]) -> Json:
        self._flush(spend)
        return self._units

    def _flush(self, spend: Callable[[int], None]) -> None:
        if self._run is not None:
            units = self._run.units()
            self._units.extend(units)
            spend(sum(len(dump_json(unit)) + 1 for unit in units))
            self._run = None


def _read_ref(column: str, value: Json) -> _Ref:
    key = (dict, dump_json(value)) if isinstance(value, (dict, list)) else (type(value), value)
    return _Ref(column=column, value=value, key=key, run=_read_run(value))


def _read_run(value: Json) -> _Run | None:
    """``value`` as the start of a run: a whole number, a text that ends in digits, or a run that was written before."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return _Run(prefix=None, pad=0, first=value, last=value)
    if isinstance(value, str):
        match = _TRAILING_NUMBER.fullmatch(value) if len(value) <= _RUN_CHARS else None
        if match is None:
            return None
        digits = match.group(2)
        number = int(digits)
        return _Run(
            prefix=match.group(1), pad=len(digits) if digits[0] == "0" else 0, first=number, last=number
        )
    if not isinstance(value, dict) or list(value) != ["first", "last", "count"]:
        return None
    first, last = value["first"], value["last"]
    if isinstance(first, dict) or isinstance(last, dict) or type(first) is not type(last):
        return None
    start, end = _read_run(first), _read_run(last)
    if start is None or end is None or start.prefix != end.prefix or start.write(end.first) != last:
        return None
    distance = end.first - start.first
    if read_count(value, "count") != abs(distance) + 1 or distance == 0:
        return None
    return _Run(
        prefix=start.prefix, pad=start.pad, first=start.first, last=end.first, step=1 if distance > 0 else -1
    )
