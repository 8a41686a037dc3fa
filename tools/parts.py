"""How a part of a stored result is written for a model: never more than a result may have, and with its exact place."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentx.llm.tokens import default_counter
from conversations.context.excerpts import cut_excerpt
from conversations.context.forms import RESULT_CHARACTERS
from conversations.context.tool_json import Json, dump_json
from conversations.context.tool_results import ResultDoesNotFit, compact_tool_result
from conversations.context.words import query_words
from tools.json_path import Found
from tools.outline import clip_line, outline_json
from tools.passages import ROW_CHARACTERS, Passage
from tools.selectors.outputs import StoredOutput

# Characters of text that one result shows: the rest of its 12,000 is for the line that says where they are.
PAGE_CHARACTERS = RESULT_CHARACTERS - 300
# The best passages or rows that one query shows.
MOST_FOUND = 20

_PATH_CHARACTERS = 500
# What is looked at of a long row to find its words, in characters, and what is shown of it, in tokens.
_LOOKED_AT, _ROW_TOKENS = 50_000, 400


def show_span(*, output: StoredOutput, text: str, start: int, where: str = "") -> str:
    """``text``, which begins at character ``start`` of the result, as much as fits, below a line that says which characters
    these are and where to read on. ``where``: the lines ``text`` is, if a section was asked for."""
    shown = text[:PAGE_CHARACTERS]
    stop = start + len(shown)
    head = f"Part of {output.id}: {where}characters {start} to {stop} of {output.characters}"
    if len(shown) < len(text):
        head += f"; this part goes on to {start + len(text)}, read on with read_tool_output, start={stop}"
    elif stop == output.characters:
        head += "; this is the end of it"
    elif not where:
        head += f"; read on with start={stop}"
    return f"{head}.\n{shown}"


def show_passages(*, output: StoredOutput, found: Sequence[Passage]) -> str:
    """The best passages, each whole, with the line and the character at which it begins."""
    shown = len(found[:MOST_FOUND])
    parts = [f"Passages of {output.id} with words of the query, best first, of {len(found)} in all."]
    left = RESULT_CHARACTERS - len(parts[0])
    for passage in found[:shown]:
        part = f"\n\n(line {passage.line}, start={passage.start})\n{passage.text.strip()}"
        if len(part) > left:
            break
        parts.append(part)
        left -= len(part)
    return "".join(parts)


def show_rows(*, output: StoredOutput, query: str, found: Sequence[Found]) -> str:
    """JSON: the best rows with their paths; of one that is longer than 2,000 characters, the text around the words."""
    rows: list[Json] = []
    frame: dict[str, Json] = {"stored_output_id": output.id, "matches": len(found), "shown": MOST_FOUND}
    left = RESULT_CHARACTERS - len(dump_json({**frame, "rows": []}))
    for item in found[:MOST_FOUND]:
        path = clip_line(item.path, _PATH_CHARACTERS)
        row: dict[str, Json] = {"path": path, "value": _cut(item.value, query)}
        if len(dump_json(row)) >= left:
            # Characters that JSON escapes take up to six; of this many there is always room for a few.
            row = {"path": path, "value": clip_line(_as_text(item.value))}
        size = len(dump_json(row)) + 1
        if size > left:
            break
        rows.append(row)
        left -= size
    return dump_json({**frame, "shown": len(rows), "rows": rows})


def show_value(*, output: StoredOutput, path: str, value: Json, one: bool = False) -> str:
    """JSON: a value, or as much of it as fits with notes about the rest; its outline where nothing of it would.

    ``one``: the value is at this one path, so that a range behind the path names what was left out.
    """
    frame: dict[str, Json] = {"stored_output_id": output.id, "path": clip_line(path, _PATH_CHARACTERS)}
    try:
        text = compact_tool_result(
            content="", artifact={**frame, "value": value}, limit=RESULT_CHARACTERS - 700
        )
    except ResultDoesNotFit:
        outline: list[Json] = [clip_line(line) for line in outline_json(value=value)[:40]]
        return dump_json(
            {**frame, "structure": outline, "notice": "Too large. Ask for a part: $ is the path here."}
        )
    shown = json.loads(text)
    kept = shown["value"]
    if one and isinstance(value, (str, list)) and len(kept) < len(value):
        shown["read_on"] = f"{frame['path']}[{len(kept)}:]"
    return dump_json(shown)


def _cut(value: Json, query: str) -> Json:
    text = _as_text(value)
    if len(text) <= ROW_CHARACTERS:
        return value
    terms = {word.lexeme for word in query_words(query)}
    excerpt = cut_excerpt(
        text=text[:_LOOKED_AT], terms=terms, max_tokens=_ROW_TOKENS, counter=default_counter()
    )
    return excerpt[:ROW_CHARACTERS]


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else dump_json(value)
