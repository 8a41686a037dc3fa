"""The request of a run made again from what is stored, and proof of whether it is the one that was sent.

The transcript, the epoch's row and the run's own record hold all of it. What was deleted since does not come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db.models import Q

from agentx.llm.messages import ChatMessage, SystemMessage, UserMessage
from agentx.llm.tokens import default_counter
from agentx.telemetry import redact_secrets
from conversations.context.exchanges import keep_whole_exchanges
from conversations.context.forms import shape_first_sent, shape_messages
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
from conversations.models import Message, Run
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
    """The request of ``run``, compared with the hash of what was sent. One query, of the rows that were in view."""
    record = stored.record
    if stored.blocks is None and record["cut_seq"]:
        gone = f"The row of epoch {record['epoch']} is gone, and with it the blocks before the history"
        return RebuiltRequestBody(rebuilt="unknown", reason=gone, messages=[])
    sent = from_ranges(record["sent"])
    rows = _rows_read(conversation_id=run.conversation_id, sent=sent, question_seq=record["question_seq"])
    messages = _emit(record, stored, rows)
    found = {row.seq for row in rows}
    missing = len((sent | {record["question_seq"]}) - found)
    rebuilt, reason = _judge(record, stored, messages, missing)
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


def _rows_read(*, conversation_id: UUID, sent: set[int], question_seq: int) -> tuple[TranscriptMessage, ...]:
    """The messages that were sent and still exist; what was superseded since is among them."""
    rows = Message.objects.filter(conversation_id=conversation_id, deleted_at=None)
    rows = rows.filter(Q(seq__in=sorted(sent)) | Q(seq=question_seq))
    return tuple(transcript_message(row) for row in rows.order_by("seq"))


def _emit(
    record: Mapping[str, Any], stored: StoredView, rows: Sequence[TranscriptMessage]
) -> tuple[ChatMessage, ...]:
    """The messages in the order in which a view has them."""
    counter = default_counter()
    history = keep_whole_exchanges([row for row in rows if row.seq < record["question_seq"]])
    question = [row for row in rows if row.seq == record["question_seq"]]
    context, tail = _slow_text(record, stored), record["tail"]
    if not may_show_tail(record, withdrawn=stored.withdrawn):
        tail = WITHHELD
    messages: list[ChatMessage] = [SystemMessage(content=BASE_PROMPT)]
    messages += [UserMessage(content=context)] if context else []
    shaped = shape_messages(messages=history, settled_seq=record["settled_seq"], counter=counter)
    messages += [item.value for item in shaped]
    messages += [UserMessage(content=tail)] if tail else []
    limit = record["excerpt"]
    messages += [shape_first_sent(row, counter=counter, excerpt=limit).value for row in question]
    return merge_same_roles(messages) if record["strict_roles"] else tuple(messages)


def _slow_text(record: Mapping[str, Any], stored: StoredView) -> str:
    blocks = [
        block
        if may_show_block(block, cut_seq=record["cut_seq"], withdrawn=stored.withdrawn)
        else replace(block, content=WITHHELD)
        for block in stored.blocks or ()
    ]
    return render_context(blocks)


def _judge(
    record: Mapping[str, Any], stored: StoredView, messages: Sequence[ChatMessage], missing: int
) -> tuple[Rebuilt, str | None]:
    """Whether the request is the one that was sent, and why it is not."""
    if not record["hash"]:
        return "unknown", "No hash of the request was stored"
    if hash_request(messages=messages) == record["hash"]:
        return "identical", None
    if missing:
        what = "1 message that was" if missing == 1 else f"{missing:,} messages that were"
        return "differs", f"{what} sent cannot be read any more: deleted since"
    if stored.withdrawn.deleted:
        return "differs", "It quoted messages that were deleted since"
    changed = _changed_prefix(record, stored.fingerprint)
    if changed:
        return "differs", f"The {changed} that went with it is another by now"
    return "differs", "What this release makes of the stored messages is not what was sent"


def _changed_prefix(record: Mapping[str, Any], fingerprint: str | None) -> str | None:
    """Which part of what stands before the history is not what it was."""
    if not fingerprint:
        return None
    was = dict(piece.split("=", 1) for piece in fingerprint.split("."))
    now = fingerprint_prefix(
        model=record["model"], strict_roles=record["strict_roles"], system_prompt=BASE_PROMPT, tools=()
    )
    names = {"prompt": "system text", "tools": "set of tools"}
    return next((name for key, name in names.items() if was.get(key) != now[key]), None)


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
