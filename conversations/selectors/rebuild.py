"""The request of a run made again from what is stored, and proof of whether it is the one that was sent.

The transcript, the epoch's row and the run's own record hold all of it. What was deleted since does not come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from agentx.llm.messages import ChatMessage, SystemMessage, ToolSchema, UserMessage
from agentx.llm.tokens import default_counter
from agentx.telemetry import redact_secrets
from conversations.context.exchanges import keep_whole_exchanges
from conversations.context.forms import RESULT_CHARACTERS, shape_first_sent, shape_messages
from conversations.context.prompt import BASE_PROMPT
from conversations.context.record import from_ranges
from conversations.context.render import (
    canonical_request,
    fingerprint_prefix,
    hash_request,
    merge_same_roles,
    render_context,
)
from conversations.context.types import FrozenBlock, TranscriptMessage
from conversations.models import Message, Run, ToolSet
from conversations.selectors.snapshot import transcript_message
from conversations.selectors.withdrawn import Withdrawn
from conversations.wire_context import Rebuilt, RebuiltRequestBody

WITHHELD = "[withheld: quotes messages that were deleted since]"


@dataclass(frozen=True, slots=True)
class StoredView:
    """What is stored of a run's view. ``blocks``: None when the epoch's row is gone. ``fingerprint``: the epoch's.

    ``record``: see ``conversations.context.record``.
    """

    record: Mapping[str, Any]
    blocks: tuple[FrozenBlock, ...] | None
    fingerprint: str | None
    withdrawn: Withdrawn


def request_rebuild(*, run: Run, stored: StoredView) -> RebuiltRequestBody:
    """The request of ``run``, compared with the hash of what was sent. Two queries: its tools, and the rows in view."""
    record = stored.record
    if stored.blocks is None and record["cut_seq"]:
        gone = f"The row of epoch {record['epoch']} is gone, and with it the blocks before the history"
        return RebuiltRequestBody(rebuilt="unknown", reason=gone, messages=[])
    tools = _tools_read(record.get("tools"))
    if tools is None:
        gone = "What the model was told of its tools is gone"
        return RebuiltRequestBody(rebuilt="unknown", reason=gone, messages=[])
    sent = from_ranges(record["sent"]) | _current_seqs(record)
    rows = _rows_read(conversation_id=run.conversation_id, seqs=sent)
    messages = _emit(record, stored, rows)
    missing = len(sent - {row.seq for row in rows})
    rebuilt, reason = _judge(record, stored, messages, tools, missing)
    return RebuiltRequestBody(rebuilt=rebuilt, reason=reason, messages=dump_request(messages))


def dump_request(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Messages as plain JSON values with secrets taken out and the data of images and sound left out."""
    return [_clean(message) for message in canonical_request(messages=messages)]


def may_show_block(block: FrozenBlock, *, cut_seq: int, withdrawn: Withdrawn) -> bool:
    """Whether nothing that the block quotes or summarizes was deleted since."""
    if block.key in ("digest", "history_digest"):
        return not withdrawn.deletes_within(1, cut_seq)
    return not withdrawn.deletes_any(block.seqs)


def may_show_tail(record: Mapping[str, Any], *, withdrawn: Withdrawn) -> bool:
    """Whether nothing that was recalled was deleted since."""
    return not any(withdrawn.deletes_any(passage["seqs"]) for passage in record["recalled"])


def _current_seqs(record: Mapping[str, Any]) -> set[int]:
    """The question and the stored messages that followed it in the request."""
    followed = record.get("current", ())  # runs of older releases had nothing behind their question
    return {record["question_seq"], *(item for item in followed if isinstance(item, int))}


def _tools_read(name: str | None) -> tuple[ToolSchema, ...] | None:
    """The tools a request named: none where it named none, None where they are not known any more."""
    if name is None:
        return ()
    found = ToolSet.objects.filter(hash=name).first()
    return None if found is None else tuple(ToolSchema(**schema) for schema in found.schemas)


def _rows_read(*, conversation_id: UUID, seqs: set[int]) -> tuple[TranscriptMessage, ...]:
    """The messages that were sent and still exist; what was superseded since is among them."""
    rows = Message.objects.filter(conversation_id=conversation_id, deleted_at=None, seq__in=sorted(seqs))
    return tuple(transcript_message(row) for row in rows.order_by("seq"))


def _emit(
    record: Mapping[str, Any], stored: StoredView, rows: Sequence[TranscriptMessage]
) -> tuple[ChatMessage, ...]:
    """The messages in the order in which a view has them."""
    counter = default_counter()
    history = keep_whole_exchanges([row for row in rows if row.seq < record["question_seq"]])
    current = _current(record, rows, used={call.id for row in history for call in row.tool_calls})
    context, tail = _slow_text(record, stored), record["tail"]
    if not may_show_tail(record, withdrawn=stored.withdrawn):
        tail = WITHHELD
    messages: list[ChatMessage] = [SystemMessage(content=BASE_PROMPT)]
    messages += [UserMessage(content=context)] if context else []
    shaped = shape_messages(messages=history, settled_seq=record["settled_seq"], counter=counter)
    messages += [item.value for item in shaped]
    messages += [UserMessage(content=tail)] if tail else []
    limit = RESULT_CHARACTERS if record["excerpt"] is None else record["excerpt"]
    messages += [shape_first_sent(row, counter=counter, excerpt=limit).value for row in current]
    return merge_same_roles(messages) if record["strict_roles"] else tuple(messages)


def _current(
    record: Mapping[str, Any], rows: Sequence[TranscriptMessage], *, used: set[str]
) -> tuple[TranscriptMessage, ...]:
    """The question and what followed it, in the order of the request."""
    by_seq = {row.seq: row for row in rows}
    question = by_seq.get(record["question_seq"])
    followed: list[TranscriptMessage] = []
    for item in record.get("current", ()):
        if isinstance(item, int):
            followed += [by_seq[item]] if item in by_seq else []
        else:
            followed.append(
                TranscriptMessage(id=0, seq=0, turn=question.turn if question else 0, tokens=0, **item)
            )
    return (*([question] if question else []), *keep_whole_exchanges(followed, used_ids=used))


def _slow_text(record: Mapping[str, Any], stored: StoredView) -> str:
    blocks = [
        block
        if may_show_block(block, cut_seq=record["cut_seq"], withdrawn=stored.withdrawn)
        else replace(block, content=WITHHELD)
        for block in stored.blocks or ()
    ]
    return render_context(blocks)


def _judge(
    record: Mapping[str, Any],
    stored: StoredView,
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolSchema],
    missing: int,
) -> tuple[Rebuilt, str | None]:
    """Whether the request is the one that was sent, and why it is not."""
    if not record["hash"]:
        return "unknown", "No hash of the request was stored"
    if hash_request(messages=messages, tools=tools) == record["hash"]:
        return "identical", None
    if missing:
        what = "1 message that was" if missing == 1 else f"{missing:,} messages that were"
        return "differs", f"{what} sent cannot be read any more: deleted since"
    if stored.withdrawn.deleted:
        return "differs", "It quoted messages that were deleted since"
    changed = _changed_prefix(record, stored.fingerprint, tools)
    if changed:
        return "differs", f"The {changed} that went with it is another by now"
    return "differs", "What this release makes of the stored messages is not what was sent"


def _changed_prefix(
    record: Mapping[str, Any], fingerprint: str | None, tools: Sequence[ToolSchema]
) -> str | None:
    """Which part of what stands before the history is not what it was."""
    if not fingerprint:
        return None
    was = dict(piece.split("=", 1) for piece in fingerprint.split("."))
    now = fingerprint_prefix(
        model=record["model"], strict_roles=record["strict_roles"], system_prompt=BASE_PROMPT, tools=tools
    )
    return "system text" if was.get("prompt") != now["prompt"] else None


def _clean(value: Any) -> Any:
    """Every string in a JSON value with secrets redacted; data URIs give way to a note of their size."""
    if isinstance(value, str):
        if value.startswith("data:"):
            kind = redact_secrets(value[5:105].partition(",")[0].partition(";")[0])
            return f"data:{kind},… [{len(value):,} characters, left out]"
        return redact_secrets(value)
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
