"""Sending a message while an answer is being written, and taking it back while it waits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from agentx.errors import KeyReused, RunEnded, TooMany
from conversations.models import Conversation, Run, Steer
from conversations.selectors import access
from conversations.selectors.bodies import steer_body
from conversations.services.leases import run_settle_if_expired
from conversations.services.notices import notice_on_commit
from conversations.services.submit import require_fits_window
from conversations.wire import SteerBody

# Messages that may wait for one run: more than a person sends while an answer is written, fewer than a loop would.
MOST_WAITING = 20


@dataclass(frozen=True, slots=True)
class SteerAccepted:
    """``created``: False when its key was seen before; then ``steer`` is what became of the first one."""

    steer: SteerBody
    created: bool


def turn_steer(*, user_id: int, run_id: UUID, content: str, client_key: str | None = None) -> SteerAccepted:
    """Store a message for a run that is at work or waits to be.

    Raises ``NotFound``, ``RunEnded`` (send it as a turn), ``KeyReused``, ``TooMany`` and ``DoesNotFit``; each leaves
    everything as it was.
    """
    run_settle_if_expired(run_id=access.run_get(user_id=user_id, run_id=run_id).pk)
    request_hash = hashlib.sha256(content.encode()).hexdigest()
    with transaction.atomic():
        run = access.run_get(user_id=user_id, run_id=run_id)
        # Ends of turns hold this lock too: a message comes either before the end, which takes care of it, or after.
        conversation = access.conversation_get(
            user_id=user_id, conversation_id=run.conversation_id, lock=True
        )
        first = _first_with_key(conversation, client_key)
        if first is not None:
            if first.request_hash != request_hash:
                raise KeyReused(run_id=str(first.run_id))
            return SteerAccepted(steer=steer_body(first), created=False)
        if not Run.objects.filter(pk=run_id, status__in=Run.ACTIVE).exists():
            raise RunEnded(run_id=str(run_id))
        if Steer.objects.filter(run=run, message=None).count() >= MOST_WAITING:
            raise TooMany("Too many messages wait for this answer; let it take them in first", retry_after=5)
        require_fits_window(content, conversation=conversation)
        row = Steer.objects.create(
            conversation=conversation,
            run=run,
            client_key=client_key,
            request_hash=request_hash,
            content=content,
        )
        notice_on_commit(kind="steer", conversation_id=conversation.pk, run_id=run.pk)
    return SteerAccepted(steer=steer_body(row), created=True)


def _first_with_key(conversation: Conversation, client_key: str | None) -> Steer | None:
    if client_key is None:
        return None
    rows = Steer.objects.select_related("message").filter(conversation=conversation, client_key=client_key)
    return rows.first()


def steer_withdraw(*, user_id: int, steer_id: UUID) -> tuple[SteerBody, bool]:
    """Take back a message that still waits; where it stands, and whether it is gone. Raises ``NotFound``."""
    with transaction.atomic():
        row = access.steer_get(user_id=user_id, steer_id=steer_id)
        body = steer_body(row)
        gone = Steer.objects.filter(pk=row.pk, taken_at=None, message=None).delete()[0] > 0
        if gone:
            notice_on_commit(kind="steer", conversation_id=row.conversation_id, run_id=row.run_id)
            return body, True
    return steer_body(access.steer_get(user_id=user_id, steer_id=steer_id)), False
