"""Reading compacted tool results: by the letter of JSON, with the runs of omitted identities spelled out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from conversations.context.tool_results import ResultDoesNotFit, compact_tool_result

ROW_FIELDS = (
    "transactions",
    "rows",
    "results",
    "documents",
    "categories",
    "accounts",
    "payees",
    "items",
    "data",
)


def read_strictly(text: str) -> Any:
    """JSON by the letter: Python would take NaN and Infinity, other readers do not."""

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def send(value: Any, *, limit: int) -> Any:
    text = compact_tool_result(content="", artifact=value, limit=limit)
    assert len(text) <= limit
    return read_strictly(text)


def send_least(value: Any) -> Any:
    """The smallest form there is, at the very limit that the refusal names."""
    with pytest.raises(ResultDoesNotFit) as refusal:
        compact_tool_result(content="", artifact=value, limit=0)
    return send(value, limit=refusal.value.needs)


def spell_out(unit: Any) -> list[Any]:
    """The members of a run, or the unit itself."""
    if not isinstance(unit, dict) or list(unit) != ["first", "last", "count"]:
        return [unit]
    first, last = unit["first"], unit["last"]
    if isinstance(first, int):
        if unit["count"] != abs(last - first) + 1:
            return [unit]  # somebody's own object that only looks like a run
        step = 1 if last > first else -1
        members: list[Any] = list(range(first, last + step, step))
    else:
        prefix, digits = re.fullmatch(r"(.*?)([0-9]{1,15})", first, re.DOTALL).groups()
        end = int(last[len(prefix) :])
        step = 1 if end > int(digits) else -1
        width = len(digits) if digits[0] == "0" else 0
        members = [f"{prefix}{str(n).zfill(width)}" for n in range(int(digits), end + step, step)]
    assert len(members) == unit["count"]
    assert members[-1] == last
    return members


def collect_ids(value: Any) -> list[Any]:
    """Every value of a field named ``id`` at any depth, those in ``omitted_refs`` spelled out."""
    found: list[Any] = []
    if isinstance(value, list):
        for item in value:
            found += collect_ids(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "omitted_refs":
                for column, units in item.items():
                    if column.split(".")[-1] == "id":
                        found += [member for unit in units for member in spell_out(unit)]
            elif key == "id":
                found.append(item)
            else:
                found += collect_ids(item)
    return found


def collect_notes(value: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Every (rows, note about them) in a result."""
    found: list[tuple[Any, dict[str, Any]]] = []
    if isinstance(value, list):
        for item in value:
            found += collect_notes(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key.endswith("_compaction") and isinstance(item, dict) and "retained" in item:
                found.append((value[key.removesuffix("_compaction")], item))
            else:
                found += collect_notes(item)
    return found
