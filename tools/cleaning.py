"""What comes out of models and tools, made fit to be stored: no NUL, no lone surrogates, nothing that JSON cannot say."""

from __future__ import annotations

import json
from datetime import date, time
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

from agentx.llm.reading import clean_text
from tools.contracts import ToolResult

# Levels of nesting that are walked, in arguments and in results; as many as the engine walks.
MOST_DEPTH = 64


def clean_result(result: ToolResult) -> tuple[ToolResult, str | None]:
    """The result as it can be stored, and what had to be left out of it: the type of an error, or None.

    Dates, decimal numbers and UUIDs become text. An artifact or ``model_context`` that cannot be JSON is left out; the
    content, which says the same in words, stays.
    """
    lost: str | None = None
    cleaned: dict[str, Any] = {}
    for name in ("artifact", "model_context"):
        try:
            cleaned[name] = clean_json(getattr(result, name))
        except (TypeError, ValueError, RecursionError) as error:
            cleaned[name], lost = None, type(error).__name__
    return ToolResult(content=clean_text(str(result.content)), ok=result.ok is True, **cleaned), lost


def clean_json(value: Any) -> Any:
    """A copy of ``value`` as plain JSON with clean strings. Raises ``TypeError``, ``ValueError`` or ``RecursionError``."""
    if value is None:
        return None
    plain = json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False, default=_as_text))
    return settle_json(clean_strings(plain))


def settle_json(value: Any) -> Any:
    """A copy of plain JSON as a ``jsonb`` column gives it back, so that a request made of it now is the one made of it later.

    Such a column sorts keys, shorter ones first and then by their bytes, and writes numbers out in digits.
    """
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        ordered = sorted(items, key=lambda item: (len(item[0].encode()), item[0].encode()))
        return {key: settle_json(item) for key, item in ordered}
    if isinstance(value, list):
        return [settle_json(item) for item in cast("list[Any]", value)]
    if isinstance(value, float):
        return int(Decimal(repr(value))) if "e+" in repr(value) else value or 0.0
    return value


def clean_strings(value: Any, *, depth: int = 0) -> Any:
    """A copy of plain JSON with every string clean, keys too. Raises ``ValueError`` beyond ``MOST_DEPTH`` levels."""
    if depth > MOST_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {clean_text(key): clean_strings(item, depth=depth + 1) for key, item in items}
    if isinstance(value, list):
        return [clean_strings(item, depth=depth + 1) for item in cast("list[Any]", value)]
    return value


def _as_text(value: object) -> str:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
