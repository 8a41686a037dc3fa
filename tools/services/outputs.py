"""The gate for results that are too long for a view: the whole is stored, and the model is told what it is and how to read it.

What is measured is what a view would be made of: the tool's ``model_context``, else its ``artifact``, else its ``content``. A
result that fits, or that fits once its JSON is written without spaces, is stored nowhere but in its message.

The artifact of a longer one stays on the message, whole, for people. For the model, ``model_context`` takes its place: the
identity and structure of what is stored, and beside them the same projection of rows and texts that the view makes of an
artifact, which the view shortens further as it does with any other. Without an artifact the content itself is replaced: by a
JSON object of the same form where it was JSON, by text otherwise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction

from agentx.llm.reading import clean_text
from conversations.context.forms import RESULT_CHARACTERS
from conversations.context.tool_json import Json, NestedTooDeepError, dump_json, measure_json, normalise_json
from conversations.context.tool_results import ResultDoesNotFit, compact_tool_result
from conversations.context.tool_text import excerpt_text
from conversations.models import Conversation, Message, Run
from tools.cleaning import settle_json
from tools.contracts import Tool, ToolContext, ToolResult
from tools.models import ToolOutput
from tools.outline import Outlined, outline_text

log = structlog.get_logger(__name__)

# What stands for a stored text, about 1,400 tokens of English, and how much of it the structure may take.
SHORT_CHARACTERS, STRUCTURE_CHARACTERS = 5_500, 1_800
# The least that is shown of both ends of JSON whose identities alone are too long.
_BEGINNING, _END = 1_200, 400

# A column of JSON sorts keys by length: behind "stored_output", so that what is read first is what this is.
_BRIEF = "result_in_brief"
_BY_PATH = "tool_output_path(id, json_path)"
_READ_WITH = (
    "read_tool_output(id, start) reads on in pages; tool_output_query(id, query) finds the parts with some words;"
    " tool_output_section(id, section) gives {sections}"
)
_SECTIONS = {
    "json": f"what is under a key; {_BY_PATH} what is at a path",
    "csv": "a column, or a range of lines such as 120-180",
    "markdown": "what is under a heading, or a range of lines such as 120-180",
}
_LINES = "a range of lines such as 120-180"


@dataclass(frozen=True, slots=True)
class _Whole:
    """What is stored. ``structured``: it was an artifact or a model's view, not the content."""

    text: str
    outlined: Outlined
    structured: bool


def result_gate(*, result: ToolResult, tool: Tool, call_id: str, context: ToolContext) -> ToolResult:
    """The result as it goes on: unchanged, or short with the whole of it stored (TUR-04).

    Storing is idempotent for one run, call and content. Parts of stored results are never stored again (TUR-06). What
    cannot be stored, because the conversation is gone or is not the user's, is left to the view to shorten.
    """
    if tool.reads_stored:
        return result
    whole = _find_long(result)
    if whole is None:
        return result
    if not whole.structured and whole.outlined.value is not None:
        plain = dump_json(whole.outlined.value)
        if len(plain) <= RESULT_CHARACTERS:
            return replace(result, content=plain)
    output_id = _store(whole=whole, tool=tool, call_id=call_id, context=context)
    if output_id is None:
        return result
    if not whole.structured:
        return replace(result, content=_show(output_id, whole, SHORT_CHARACTERS))
    shown = _show(output_id, whole, RESULT_CHARACTERS)
    content = result.content
    if len(content) > RESULT_CHARACTERS:
        content = _show_text(output_id, whole, content, SHORT_CHARACTERS)
    model_context = settle_json(json.loads(shown)) if whole.outlined.value is not None else shown
    return replace(result, content=content, model_context=model_context)


def outputs_purge(*, conversation_id: UUID) -> int:
    """Delete every result stored in a conversation; returns how many. For a conversation that is being deleted."""
    return ToolOutput.objects.filter(conversation_id=conversation_id)._raw_delete(using="default")


def outputs_forget(*, conversation_id: UUID, seqs: Collection[int]) -> int:
    """Delete the results behind messages that were deleted; returns how many. Part of the caller's transaction."""
    results = Message.objects.filter(
        conversation_id=conversation_id, seq__in=list(seqs), role=Message.Role.TOOL
    ).values_list("run_id", "tool_call_id")
    count = 0
    for run_id, call_id in results:
        rows = ToolOutput.objects.filter(conversation_id=conversation_id, run_id=run_id, tool_call_id=call_id)
        count += rows.delete()[0]
    return count


def _find_long(result: ToolResult) -> _Whole | None:
    """What a view would be made of, if it is too long for one."""
    model_context = result.model_context
    if isinstance(model_context, str) and model_context:
        text = clean_text(model_context)
        return _outline(text, structured=True) if len(text) > RESULT_CHARACTERS else None
    for candidate in (model_context, result.artifact):
        if not candidate or not isinstance(candidate, (dict, list)):
            continue
        try:
            value = cast("dict[str, Json] | list[Json]", normalise_json(cast("Any", candidate)))
        except NestedTooDeepError:
            continue
        if measure_json(value, stop=RESULT_CHARACTERS) <= RESULT_CHARACTERS:
            plain = dump_json(value)
            if len(plain) <= RESULT_CHARACTERS:
                return None
        return _outline(clean_text(dump_json(value)), structured=True)
    text = clean_text(result.content)
    return _outline(text, structured=False) if len(text) > RESULT_CHARACTERS else None


def _outline(text: str, *, structured: bool) -> _Whole:
    return _Whole(text, outline_text(text=text, limit=STRUCTURE_CHARACTERS), structured)


def _store(*, whole: _Whole, tool: Tool, call_id: str, context: ToolContext) -> str | None:
    """The id of the stored whole, or None where there is no such conversation of this user."""
    conversations = Conversation.objects.filter(pk=context.conversation_id, owner_id=context.user_id)
    runs = Run.objects.filter(pk=context.run_id, conversation_id=context.conversation_id)
    try:
        with transaction.atomic():
            if not conversations.exists():
                return None
            row, created = ToolOutput.objects.get_or_create(
                conversation_id=context.conversation_id,
                run_id=runs.values_list("pk", flat=True).first(),
                tool_call_id=clean_text(call_id)[:200],
                content_hash=hashlib.sha256(whole.text.encode()).hexdigest(),
                defaults={
                    "tool": tool.name[:100],
                    "kind": whole.outlined.kind,
                    "content": whole.text,
                    "characters": len(whole.text),
                },
            )
    except IntegrityError:
        # The conversation or its run was deleted in the meantime.
        log.warning("tool_output_not_stored", tool=tool.name, conversation_id=str(context.conversation_id))
        return None
    if created:
        log.info("tool_output_stored", tool=tool.name, output_id=row.pk, characters=row.characters)
    return row.pk


def _show(output_id: str, whole: _Whole, limit: int) -> str:
    """What the model reads, at most ``limit`` characters: JSON where the whole is JSON."""
    value = whole.outlined.value
    if value is None:
        return _show_text(output_id, whole, whole.text, min(limit, SHORT_CHARACTERS))
    head: dict[str, Json] = {
        "stored_output": {
            "id": output_id,
            "kind": "json",
            "characters": len(whole.text),
            "structure": list(whole.outlined.structure),
            "read_with": _read_with("json"),
        }
    }
    room = limit - len(dump_json({**head, _BRIEF: 0}))
    try:
        projected = compact_tool_result(content="", artifact=value, limit=room)
        return dump_json({**head, _BRIEF: json.loads(projected)})
    except ResultDoesNotFit:
        return _show_ends(head, whole.text, limit)


def _show_ends(head: dict[str, Json], text: str, limit: int) -> str:
    """Where even the identities of all rows are too long: they can be read from what is stored."""
    beginning, end = _BEGINNING, _END
    while True:
        ends: dict[str, Json] = {"begins": text[:beginning], "ends_with": text[-end:] if end else ""}
        shown = dump_json({**head, _BRIEF: ends})
        if len(shown) <= limit or not beginning:
            return shown
        beginning, end = beginning // 2, end // 2


def _show_text(output_id: str, whole: _Whole, excerpted: str, limit: int) -> str:
    kind = whole.outlined.kind
    head = (
        f"This result has {len(whole.text):,} characters, too many to be shown here. All of it is stored as {output_id} ({kind}).\n"
        f"{_read_with(kind)}.\n\nStructure:\n" + "\n".join(whole.outlined.structure)
    )
    ends = "\n\nBeginning and end:\n"
    excerpt = excerpt_text(excerpted, limit=limit - len(head) - len(ends))
    return head if excerpt is None else head + ends + excerpt


def _read_with(kind: str) -> str:
    return _READ_WITH.format(sections=_SECTIONS.get(kind, _LINES))
