"""A small part of JSONPath (RFC 9535): steps to members and elements, without filters, functions or descent.

What a model asks of a stored result is where something is. Expressions that compute are the part of the language by which a
request of one line can take minutes, so there are none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from conversations.context.tool_json import Json
from tools.outline import show_path

# Longest path, most steps of it, and most values that one step may reach.
PATH_CHARACTERS, MOST_STEPS, MOST_VALUES = 500, 32, 100_000

_NAME = re.compile(r"\.?([^\W\d][\w-]*)")
_BRACKET = re.compile(
    r"""\.?\[\s*(?:(?P<star>\*)|(?P<index>-?\d{1,9})|(?P<start>-?\d{1,9})?\s*:\s*(?P<stop>-?\d{1,9})?"""
    r"""(?:\s*:\s*(?P<step>-?\d{1,9})?)?|(?P<double>"(?:[^"\\]|\\.)*")|'(?P<single>(?:[^'\\]|\\.)*)')\s*\]"""
)

Step = str | int | slice | None
"""A member's name, an element's index, a range of elements (of a text: of characters), or None for all of them."""


class PathError(ValueError):
    """The path is not one; the text says where and what may stand there."""


@dataclass(frozen=True, slots=True)
class Found:
    """A value and the path at which it is."""

    path: str
    value: Json


def parse_path(path: str) -> tuple[Step, ...]:
    """The steps of ``$.a.b[0]``, ``$['quoted key']``, ``[-1]``, ``[2:10:2]``, ``[*]`` or ``.*``; the ``$`` may be missing.

    Raises ``PathError``.
    """
    if len(path) > PATH_CHARACTERS:
        raise PathError(f"The path is longer than {PATH_CHARACTERS} characters.")
    at = 1 if path.startswith("$") else 0
    steps: list[Step] = []
    while at < len(path):
        if path.startswith(".*", at) or (at == 0 and path.startswith("*")):
            steps.append(None)
            at = path.index("*", at) + 1
        elif name := (_NAME.match(path, at) if not at or path[at] == "." else None):
            steps.append(name[1])
            at = name.end()
        elif bracket := _BRACKET.match(path, at):
            steps.append(_read_bracket(bracket))
            at = bracket.end()
        else:
            raise PathError(
                f"The path cannot be read from {path[at : at + 20]!r} on (character {at}). It may have .key, ['quoted key'], "
                "[0], [-1], [2:10], [*] and .*; filters and .. are not known here, use tool_output_query for these."
            )
        if len(steps) > MOST_STEPS:
            raise PathError(f"The path has more than {MOST_STEPS} steps.")
    return tuple(steps)


def follow_path(*, value: Json, steps: tuple[Step, ...]) -> list[Found]:
    """What the steps lead to, in the order of the document; nothing where they lead nowhere.

    Raises ``PathError`` when a step reaches more than 100,000 values.
    """
    found = [Found("$", value)]
    for step in steps:
        following: list[Found] = []
        for item in found:
            following.extend(_follow(item, step))
            if len(following) > MOST_VALUES:
                raise PathError(
                    f"The path leads to more than {MOST_VALUES:,} values. Name fewer with a range."
                )
        found = following
    return found


def find_last_step(*, value: Json, steps: tuple[Step, ...]) -> tuple[str, list[Found]]:
    """The longest beginning of a path that leads somewhere, and where: for an answer that says what is there instead."""
    reached = [Found("$", value)]
    shown = "$"
    for number in range(1, len(steps) + 1):
        further = follow_path(value=value, steps=steps[:number])
        if not further:
            break
        reached, shown = further, shown + _show_step(steps[number - 1])
    return shown, reached


def list_children(found: Found) -> list[Found]:
    """The members of an object or elements of a list with their paths; nothing for anything else."""
    return _follow(found, None)


def find_key(*, value: Json, accept: Callable[[str], bool]) -> Found | None:
    """The outermost member whose key is accepted, the first of them, among the first 100,000 values."""
    level = [Found("$", value)]
    seen = 0
    while level and seen < MOST_VALUES:
        following: list[Found] = []
        for item in level:
            if isinstance(item.value, dict):
                for key, inner in item.value.items():
                    if accept(key):
                        return Found(show_path(item.path, key), inner)
            following.extend(list_children(item))
        seen += len(following)
        level = following
    return None


def _read_bracket(match: re.Match[str]) -> Step:
    if match["star"]:
        return None
    if match["index"]:
        return int(match["index"])
    if match["double"] is not None:
        return _unquote(match["double"])
    if match["single"] is not None:
        return _unquote(f'"{_to_double(match["single"])}"')
    start, stop, step = (int(match[name]) if match[name] else None for name in ("start", "stop", "step"))
    if step == 0:
        raise PathError("The step of a range cannot be 0.")
    return slice(start, stop, step)


def _to_double(inner: str) -> str:
    """What stands between single quotes as it would stand between double ones."""
    return re.sub(r'\\.|"', lambda found: {"\\'": "'", '"': '\\"'}.get(found[0], found[0]), inner)


def _unquote(text: str) -> str:
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        raise PathError(f"The quoted key {text[:40]} cannot be read.") from None


def _follow(item: Found, step: Step) -> list[Found]:
    path, value = item.path, item.value
    if isinstance(value, dict):
        if step is None:
            return [Found(show_path(path, key), inner) for key, inner in value.items()]
        if isinstance(step, str) and step in value:
            return [Found(show_path(path, step), value[step])]
        # A list of numbers as keys is common in JSON of other languages.
        if isinstance(step, int) and str(step) in value:
            return [Found(show_path(path, str(step)), value[str(step)])]
        return []
    if isinstance(value, list):
        if step is None:
            step = slice(None)
        if isinstance(step, slice):
            return [Found(f"{path}[{at}]", value[at]) for at in range(*step.indices(len(value)))]
        if isinstance(step, int) and -len(value) <= step < len(value):
            return [Found(f"{path}[{step % len(value)}]", value[step])]
        return []
    if isinstance(value, str) and isinstance(step, slice):
        return [Found(path + _show_step(step), value[step])]
    return []


def _show_step(step: Step) -> str:
    if step is None:
        return "[*]"
    if isinstance(step, str):
        return show_path("", step)
    if isinstance(step, int):
        return f"[{step}]"
    ends = ("" if end is None else str(end) for end in (step.start, step.stop))
    return f"[{':'.join(ends)}{'' if step.step is None else f':{step.step}'}]"
