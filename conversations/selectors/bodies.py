"""Rows as wire shapes: the only place where a column becomes a field that outsiders read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from conversations.models import Conversation, Message, Run, Steer
from conversations.wire import (
    ConversationBody,
    ErrorBody,
    MessageBody,
    MessageRole,
    MessageStatus,
    RunBody,
    RunStatus,
    SteerBody,
    TimingsBody,
    ToolCallBody,
    UsageBody,
)


def message_body(row: Message) -> MessageBody:
    """One message as every transport shows it."""
    return MessageBody(
        id=row.pk,
        seq=row.seq,
        turn=row.turn,
        role=cast(MessageRole, row.role),
        content=row.content,
        status=cast(MessageStatus, row.status),
        tool_calls=[_tool_call_body(call) for call in row.tool_calls],
        tool_call_id=row.tool_call_id,
        run_id=row.run_id,
        metadata=row.metadata,
        created_at=row.created_at,
    )


def _tool_call_body(call: Mapping[str, Any]) -> ToolCallBody:
    """Calls that came in with an imported transcript have no label."""
    return ToolCallBody(
        id=call["id"], name=call["name"], label=call.get("label") or call["name"], arguments=call["arguments"]
    )


def answer_of(run: Run) -> Message | None:
    """The row of a run's answer, if it stored one: not a step on the way to it."""
    rows = run.written_messages.filter(role=Message.Role.ASSISTANT, tool_calls=[])
    return rows.order_by("-seq").first()


def run_body(row: Run) -> RunBody:
    """One run as every transport shows it; reads ``user_message``, so select it along."""
    return RunBody(
        id=row.pk,
        conversation_id=row.conversation_id,
        status=cast(RunStatus, row.status),
        epoch=row.epoch,
        user_message_seq=row.user_message.seq,
        model=row.model,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        cancel_requested=row.cancel_requested,
        finish_reason=row.finish_reason,
        final_seq=row.final_seq,
        usage=None if row.usage is None else UsageBody.model_validate(row.usage),
        timings=None if row.timings is None else TimingsBody.model_validate(row.timings),
        error=None if row.error is None else ErrorBody.model_validate(row.error),
    )


def steer_body(row: Steer) -> SteerBody:
    """One message that was sent during a turn; reads ``message``, so select it along."""
    status = "stored" if row.message else "taken" if row.taken_at else "waiting"
    return SteerBody(
        id=row.pk,
        run_id=row.run_id,
        client_key=row.client_key,
        content=row.message.content if row.message else row.content,
        status=status,
        seq=row.message.seq if row.message else None,
        created_at=row.created_at,
    )


def conversation_body(row: Conversation, *, active_run: Run | None) -> ConversationBody:
    """One conversation as lists show it."""
    return ConversationBody(
        id=row.pk,
        title=row.title,
        created_at=row.created_at,
        updated_at=row.updated_at,
        head=row.next_seq - 1,
        active_run=None if active_run is None else run_body(active_run),
    )
