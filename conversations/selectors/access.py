"""The one way to rows that an outsider names. What is not theirs does not exist for them."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from agentx.errors import NotFound
from conversations.models import Conversation, Message, Run, Steer


def conversations_of(*, user_id: int) -> QuerySet[Conversation]:
    """Every conversation the user may see."""
    return Conversation.objects.filter(owner_id=user_id)


def conversation_get(*, user_id: int, conversation_id: UUID, lock: bool = False) -> Conversation:
    """The user's conversation; ``lock`` takes the row lock and needs a transaction. Raises ``NotFound``."""
    rows = conversations_of(user_id=user_id)
    if lock:
        rows = rows.select_for_update()
    row = rows.filter(pk=conversation_id).first()
    if row is None:
        raise NotFound("There is no such conversation")
    return row


def runs_of(*, user_id: int) -> QuerySet[Run]:
    """Every run in the user's conversations."""
    return Run.objects.filter(conversation__owner_id=user_id)


def run_get(*, user_id: int, run_id: UUID) -> Run:
    """The user's run with its user message. Raises ``NotFound``."""
    row = runs_of(user_id=user_id).select_related("user_message").filter(pk=run_id).first()
    if row is None:
        raise NotFound("There is no such run")
    return row


def steer_get(*, user_id: int, steer_id: UUID) -> Steer:
    """A message of the user's that was sent during a turn. Raises ``NotFound``."""
    rows = Steer.objects.select_related("message").filter(conversation__owner_id=user_id)
    row = rows.filter(pk=steer_id).first()
    if row is None:
        raise NotFound("There is no such message waiting")
    return row


def messages_of(*, user_id: int, conversation_id: UUID) -> QuerySet[Message]:
    """The conversation's messages that a person sees, after checking that it is the user's. Raises ``NotFound``."""
    conversation = conversation_get(user_id=user_id, conversation_id=conversation_id)
    return Message.objects.filter(conversation=conversation, deleted_at=None, superseded_at=None)
