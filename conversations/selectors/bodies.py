"""Rows as wire shapes: the only place where a column becomes a field that outsiders read."""

from __future__ import annotations

from typing import cast

from conversations.models import Conversation, Message, Run
from conversations.wire import (
    ConversationBody,
    ErrorBody,
    MessageBody,
    MessageRole,
    MessageStatus,
    RunBody,
    RunStatus,
    TimingsBody,
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
        run_id=row.run_id,
        metadata=row.metadata,
        created_at=row.created_at,
    )


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
