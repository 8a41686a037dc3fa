"""Pages of conversations, messages and runs. Every list is bounded by its limit."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import connection
from django.db.models import Q, QuerySet

from agentx.errors import InvalidInput
from conversations.models import Run
from conversations.selectors import access
from conversations.selectors.bodies import answer_of, conversation_body, message_body, run_body
from conversations.wire import ConversationBody, MessageBody, RunBody


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages in order of seq, and whether there are more on either side."""

    results: list[MessageBody]
    has_before: bool
    has_after: bool


def message_page(
    *, user_id: int, conversation_id: UUID, before: int | None, after: int | None, limit: int
) -> MessagePage:
    """At most ``limit`` messages before or after a seq, or the newest when neither is given. Two queries.

    Raises ``InvalidInput`` when both are given, ``NotFound`` when the conversation is not the user's.
    """
    if before is not None and after is not None:
        raise InvalidInput("Give either before or after", errors={"before": ["excludes after"]})
    rows = access.messages_of(user_id=user_id, conversation_id=conversation_id)
    if after is not None:
        found = list(rows.filter(seq__gt=after).order_by("seq")[: limit + 1])
        page, more = found[:limit], len(found) > limit
        return MessagePage([message_body(row) for row in page], has_before=after > 0, has_after=more)
    if before is not None:
        rows = rows.filter(seq__lt=before)
    found = list(rows.order_by("-seq")[: limit + 1])
    page, more = found[:limit][::-1], len(found) > limit
    return MessagePage([message_body(row) for row in page], has_before=more, has_after=before is not None)


def message_by_run(*, user_id: int, run_id: UUID) -> MessageBody | None:
    """The answer a run stored, if it stored one."""
    run = access.run_get(user_id=user_id, run_id=run_id)
    row = answer_of(run)
    return None if row is None else message_body(row)


def conversation_page(
    *, user_id: int, cursor: str | None, limit: int, search: str
) -> tuple[list[ConversationBody], str | None]:
    """Conversations by newest activity and the cursor of the next page. Two queries."""
    rows = access.conversations_of(user_id=user_id)
    if search:
        rows = rows.filter(title__icontains=search)
    found = _page(rows, field="updated_at", cursor=cursor, limit=limit)
    active = {
        run.conversation_id: run
        for run in Run.objects.filter(
            conversation__in=[row.pk for row in found[:limit]], status__in=Run.ACTIVE
        ).select_related("user_message")
    }
    bodies = [conversation_body(row, active_run=active.get(row.pk)) for row in found[:limit]]
    return bodies, _next_cursor(found, field="updated_at", limit=limit)


def conversation_read(*, user_id: int, conversation_id: UUID) -> ConversationBody:
    """One conversation with its active run. Two queries. Raises ``NotFound``."""
    row = access.conversation_get(user_id=user_id, conversation_id=conversation_id)
    return conversation_body(row, active_run=active_run(conversation_id=row.pk))


def run_page(
    *, user_id: int, conversation_id: UUID | None, status: str | None, cursor: str | None, limit: int
) -> tuple[list[RunBody], str | None]:
    """The user's runs, newest first, and the cursor of the next page."""
    rows = access.runs_of(user_id=user_id).select_related("user_message")
    if conversation_id is not None:
        rows = rows.filter(conversation_id=conversation_id)
    if status is not None:
        rows = rows.filter(status=status)
    found = _page(rows, field="created_at", cursor=cursor, limit=limit)
    return [run_body(row) for row in found[:limit]], _next_cursor(found, field="created_at", limit=limit)


def active_run(*, conversation_id: UUID) -> Run | None:
    """The queued or running run of a conversation whose access was checked."""
    rows = Run.objects.filter(conversation_id=conversation_id, status__in=Run.ACTIVE)
    return rows.select_related("user_message").first()


def active_and_waiting(*, conversation_id: UUID) -> tuple[UUID | None, int]:
    """The id of a conversation's active run, and how many runs of anybody wait for a runner. One round trip."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT id FROM conversations_run WHERE conversation_id = %s AND status IN ('queued', 'running')),"
            " (SELECT count(*) FROM conversations_run WHERE status = 'queued')",
            [conversation_id],
        )
        row = cursor.fetchone()
    assert row is not None, "a statement without FROM has one row"
    return row[0], row[1]


def _page(rows: QuerySet[Any], *, field: str, cursor: str | None, limit: int) -> list[Any]:
    """One more row than ``limit``, newest first, after the position that ``cursor`` names."""
    if cursor is not None:
        when, pk = _decode_cursor(cursor)
        rows = rows.filter(Q(**{f"{field}__lt": when}) | Q(**{field: when, "pk__lt": pk}))
    return list(rows.order_by(f"-{field}", "-pk")[: limit + 1])


def _next_cursor(found: list[Any], *, field: str, limit: int) -> str | None:
    if len(found) <= limit:
        return None
    last = found[limit - 1]
    return base64.urlsafe_b64encode(orjson.dumps([getattr(last, field), last.pk])).decode()


def _decode_cursor(cursor: str) -> tuple[datetime, UUID]:
    try:
        when, pk = orjson.loads(base64.urlsafe_b64decode(cursor.encode()))
        return datetime.fromisoformat(when), UUID(pk)
    except (binascii.Error, ValueError, TypeError, AttributeError):
        raise InvalidInput("The cursor is not one of ours", errors={"cursor": ["is not valid"]}) from None
