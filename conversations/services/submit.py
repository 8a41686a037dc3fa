"""Accepting a message: from here it cannot be lost."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import transaction

from agentx.errors import DoesNotFit, HeadMoved, KeyReused, RunActive, TooMany
from agentx.llm.tokens import default_counter
from conversations.context.budget import derive_budget
from conversations.models import Conversation, Message, Run, Steer
from conversations.selectors import access
from conversations.selectors.bodies import message_body, run_body
from conversations.selectors.history import active_and_waiting
from conversations.selectors.model_profiles import (
    budget_rules,
    conversation_ratio,
    model_read,
    planned_window,
)
from conversations.services.leases import run_settle_if_expired
from conversations.services.notices import notice_on_commit
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append
from conversations.titles import derive_title
from conversations.wire import TurnAcceptedBody


def turn_submit(
    *,
    user_id: int,
    conversation_id: UUID,
    content: str,
    client_key: str | None = None,
    expected_head: int | None = None,
) -> TurnAcceptedBody:
    """Store the user's message and a queued run in one transaction; a runner takes it from there.

    A repeated ``client_key`` returns the first run and stores nothing. Raises ``NotFound``, ``KeyReused`` (same key,
    other text), ``RunActive``, ``HeadMoved``, ``DoesNotFit`` and ``TooMany`` (queue full); each leaves everything as
    it was.
    """
    sent = _Sent(
        user_id=user_id,
        conversation_id=conversation_id,
        content=content,
        client_key=client_key,
        expected_head=expected_head,
    )
    try:
        return _accept(sent)
    except RunActive as busy:
        # Its owner may be gone. The settlement is a transaction of its own: it may add a partial answer, which the next
        # attempt must read, and a refusal of that attempt must not undo it.
        if not run_settle_if_expired(run_id=UUID(busy.details["run_id"])):
            raise
    return _accept(sent)


@dataclass(frozen=True, slots=True)
class _Sent:
    """What a person sent, as given to :func:`turn_submit`."""

    user_id: int
    conversation_id: UUID
    content: str
    client_key: str | None
    expected_head: int | None


def _accept(sent: _Sent) -> TurnAcceptedBody:
    """The one transaction of :func:`turn_submit`."""
    conversation_id, content, client_key = sent.conversation_id, sent.content, sent.client_key
    request_hash = hashlib.sha256(content.encode()).hexdigest()
    with transaction.atomic():
        conversation = access.conversation_get(
            user_id=sent.user_id, conversation_id=conversation_id, lock=True
        )
        first = _first_with_key(conversation_id=conversation_id, client_key=client_key)
        if first is not None:
            return _resent(first, request_hash=request_hash)
        steered = _taken_in(conversation_id=conversation_id, client_key=client_key, request_hash=request_hash)
        if steered is not None:
            return steered
        active, waiting = active_and_waiting(conversation_id=conversation_id)
        if active is not None:
            raise RunActive(run_id=str(active))
        head = conversation.next_seq - 1
        if sent.expected_head is not None and sent.expected_head != head:
            raise HeadMoved(head=head)
        if waiting >= settings.RUN_QUEUE_LIMIT:
            raise TooMany("Too many messages are waiting for an answer; try again in a moment", retry_after=5)
        require_fits_window(content, conversation=conversation)

        message = message_append(
            conversation=conversation,
            new=NewMessage(role=Message.Role.USER, content=content),
            turn=conversation.next_turn,
        )
        run = Run.objects.create(
            conversation=conversation,
            user_message=message,
            client_key=client_key,
            request_hash=request_hash,
            model=settings.LLM_MODEL,
        )
        if not conversation.title:
            conversation.title = derive_title(content)
            conversation.title_source = Conversation.TitleSource.DERIVED
            conversation_counters_save(conversation, also=("title", "title_source"))
        else:
            conversation_counters_save(conversation)
        notice_on_commit(kind="queued", conversation_id=conversation.pk, run_id=run.pk)
    return TurnAcceptedBody(run=run_body(run), message=message_body(message), created=True)


def require_fits_window(content: str, *, conversation: Conversation) -> None:
    """Refuse a message that could not be sent even alone. Raises ``DoesNotFit`` with the figures.

    Where nothing names the window, the runner decides, which asks the provider. Estimates that are known to be too high
    are corrected; what is known to be too low is left to the runner, which may have the message counted exactly.
    """
    known = model_read(model=settings.LLM_MODEL, reported_window=None)
    profile = known.profile
    if profile.source == "default" and not settings.CONTEXT_WINDOW_TOKENS:
        return
    budget = derive_budget(window=planned_window(profile), rules=budget_rules(profile))
    ratio = min(1.0, conversation_ratio(known=known, conversation=conversation))
    needed = round(default_counter().count_text(content) * ratio)
    if needed > budget.tokens:
        raise DoesNotFit(
            f"The message has about {needed:,} tokens and the model takes {budget.tokens:,}: "
            "shorten it, or send it in parts",
            needed=needed,
            budget=budget.tokens,
            largest="question",
        )


def _first_with_key(*, conversation_id: UUID, client_key: str | None) -> Run | None:
    if client_key is None:
        return None
    rows = Run.objects.filter(conversation_id=conversation_id, client_key=client_key)
    return rows.select_related("user_message").first()


def _taken_in(*, conversation_id: UUID, client_key: str | None, request_hash: str) -> TurnAcceptedBody | None:
    """Where a message went that is sent again because nobody heard that a turn on its way had taken it in."""
    if client_key is None:
        return None
    rows = Steer.objects.select_related("message", "run__user_message")
    steer = rows.filter(conversation_id=conversation_id, client_key=client_key, message__isnull=False).first()
    if steer is None or steer.message is None:
        return None
    if steer.request_hash != request_hash:
        raise KeyReused(run_id=str(steer.run_id))
    return TurnAcceptedBody(run=run_body(steer.run), message=message_body(steer.message), created=False)


def _resent(run: Run, *, request_hash: str) -> TurnAcceptedBody:
    if run.request_hash != request_hash:
        raise KeyReused(run_id=str(run.pk))
    return TurnAcceptedBody(run=run_body(run), message=message_body(run.user_message), created=False)
