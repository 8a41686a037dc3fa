"""Creating, renaming and deleting conversations."""

from __future__ import annotations

from uuid import UUID

from django.db import connection, transaction

from conversations.models import (
    CompactionDigest,
    ContextEpoch,
    Conversation,
    EvidenceLedger,
    Message,
    MessageEntry,
    ModelCall,
    Run,
    Steer,
)
from conversations.selectors import access
from conversations.selectors.bodies import conversation_body
from conversations.selectors.history import conversation_read
from conversations.services.cancel import run_cancel
from conversations.services.notices import notice_on_commit
from conversations.wire import ConversationBody
from tools.services.outputs import outputs_purge


def conversation_create(*, user_id: int, title: str | None = None) -> ConversationBody:
    """A new, empty conversation."""
    given = (title or "").strip()
    source = Conversation.TitleSource.PERSON if given else ""
    row = Conversation.objects.create(owner_id=user_id, title=given, title_source=source)
    return conversation_body(row, active_run=None)


def conversation_rename(*, user_id: int, conversation_id: UUID, title: str) -> ConversationBody:
    """Give a conversation another title, which every open page of it is told. Raises ``NotFound``."""
    row = access.conversation_get(user_id=user_id, conversation_id=conversation_id)
    row.title, row.title_source = title.strip(), Conversation.TitleSource.PERSON
    row.save(update_fields=["title", "title_source"])
    notice_on_commit(kind="titled", conversation_id=conversation_id)
    return conversation_read(user_id=user_id, conversation_id=conversation_id)


def conversation_delete(*, user_id: int, conversation_id: UUID) -> None:
    """Delete a conversation with its messages and runs, after stopping an active run. Raises ``NotFound``."""
    access.conversation_get(user_id=user_id, conversation_id=conversation_id)
    for run_id in Run.objects.filter(conversation=conversation_id, status__in=Run.ACTIVE).values_list(
        "pk", flat=True
    ):
        run_cancel(user_id=user_id, run_id=run_id)
    with transaction.atomic(), connection.cursor() as cursor:
        access.conversation_get(user_id=user_id, conversation_id=conversation_id, lock=True)
        cursor.execute(
            "SET LOCAL agentx.purging = 'on'"
        )  # the transcript's guard lets whole conversations go
        outputs_purge(conversation_id=conversation_id)
        # Messages and runs point at each other, so the order is: what points nowhere else first.
        for derived in (MessageEntry, CompactionDigest, ContextEpoch, EvidenceLedger, Steer):
            derived.objects.filter(conversation_id=conversation_id)._raw_delete(using="default")
        ModelCall.objects.filter(conversation=conversation_id).update(run=None, conversation=None)
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        Message.objects.filter(conversation=conversation_id)._raw_delete(using="default")
        Run.objects.filter(conversation=conversation_id)._raw_delete(using="default")
        Conversation.objects.filter(pk=conversation_id)._raw_delete(using="default")
