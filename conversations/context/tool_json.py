"""JSON as tools give it, made safe to walk and to write again.

A tool's result comes from anywhere: from Python, with tuples and numbers as keys, or from text, with keys that occur
twice and numbers that no float holds. Everything behind this module works on one plain shape, so that what is written
always parses and nothing was lost on the way.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

MAX_DEPTH = 64
"""Levels of nesting that are walked. No real result comes near it, and the walk stays far from Python's own limit."""

MAX_INTEGER_BITS = 2_000
MAX_INTEGER_DIGITS = 600
"""Python refuses to print or read whole numbers of more than 4,300 digits, and may be set to refuse from 640 on.
Larger ones become text long before."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class NestedTooDeepError(ValueError):
    """The value is nested more than ``MAX_DEPTH`` levels deep, or contains itself."""


def read_json(text: str) -> dict[str, Json] | list[Json] | None:
    """The object or list that ``text`` is, or None if it is anything else or cannot be walked."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value: Any = json.loads(
            text,
            object_pairs_hook=_join_pairs,
            parse_int=_read_integer,
            parse_float=_read_float,
            parse_constant=str,
        )
        plain = normalise_json(value)
    except (ValueError, RecursionError):
        return None
    return plain if isinstance(plain, (dict, list)) else None


def normalise_json(value: object, *, depth: int = 0) -> Json:
    """A copy of ``value`` made of plain JSON values only; the argument stays as it is.

    What JSON cannot say becomes text: ``NaN``, infinities, whole numbers of more than 600 digits (in hexadecimal), and
    objects of other types. Keys become text; of two that become the same, the later one is numbered.

    Raises ``NestedTooDeepError``.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= MAX_INTEGER_BITS else hex(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _name_constant(value)
    if depth >= MAX_DEPTH:
        raise NestedTooDeepError
    if isinstance(value, (dict, Mapping)):  # the abstract class alone would be asked at ten times the cost
        items = cast("Mapping[object, object]", value).items()
        return _join_pairs([(_name_key(key), normalise_json(item, depth=depth + 1)) for key, item in items])
    if isinstance(value, (list, tuple)):
        return [normalise_json(item, depth=depth + 1) for item in cast("Iterable[object]", value)]
    return str(value)


def dump_json(value: Json) -> str:
    """Compact JSON in source order, other scripts unescaped. Lone surrogates are escaped, so that it encodes as UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def clean_text(text: str) -> str:
    """``text`` with lone surrogates replaced, so that it encodes as UTF-8."""
    return _SURROGATE.sub("\ufffd", text)


def measure_json(value: Json, *, stop: int) -> int:
    """At most the length of ``dump_json(value)`` in characters, counted no further than just past ``stop``."""
    total = 0
    waiting: list[Json] = [value]
    while waiting and total <= stop:
        item = waiting.pop()
        if isinstance(item, str):
            total += len(item) + 2
        elif isinstance(item, dict):
            total += 1 + sum(len(key) + 4 for key in item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            total += 1 + len(item)
            waiting.extend(item)
        else:
            total += 1
    return total


def _join_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON allows a key twice, and Python would keep the last alone: the later ones are numbered instead."""
    joined: dict[str, Any] = dict(pairs)
    if len(joined) == len(pairs):
        return joined
    taken = set(joined)
    numbers: dict[str, int] = {}
    joined = {}
    for key, value in pairs:
        name = key
        while name in joined or (name != key and name in taken):
            numbers[key] = numbers.get(key, 1) + 1
            name = f"{key} ({numbers[key]})"
        joined[name] = value
    return joined


def _name_key(key: object) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return json.dumps(key)
    if isinstance(key, int) and key.bit_length() > MAX_INTEGER_BITS:
        return hex(key)
    return str(key)


def _name_constant(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _read_integer(text: str) -> int | str:
    return int(text) if len(text) <= MAX_INTEGER_DIGITS else text


def _read_float(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text
