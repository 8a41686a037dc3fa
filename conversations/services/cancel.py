"""Stopping a run, at any moment of its life, any number of times."""

from __future__ import annotations

import uuid
from uuid import UUID

from django.db import transaction

from conversations.contracts import Outcome
from conversations.models import Run
from conversations.selectors import access
from conversations.selectors.bodies import run_body
from conversations.services.commit import run_settle
from conversations.services.leases import run_settle_if_expired
from conversations.services.notices import notice_on_commit
from conversations.wire import RunBody

_NEVER_STARTED = Outcome(
    status="cancelled",
    message_status="stopped",
    text="",
    finish_reason="stopped",
    truncated=False,
    had_thinking=False,
    calls=(),
    error=None,
    first_token_ms=None,
    total_ms=None,
)


def run_cancel(*, user_id: int, run_id: UUID) -> RunBody:
    """Ask a running run to stop; settle it at once when nobody works on it. An ended run answers its final state.

    Raises ``NotFound``.
    """
    run = access.run_get(user_id=user_id, run_id=run_id)
    if run.status == Run.Status.QUEUED and _queued_cancel(run):
        return run_body(access.run_get(user_id=user_id, run_id=run_id))
    with transaction.atomic():
        asked = Run.objects.filter(pk=run_id, status__in=Run.ACTIVE).update(cancel_requested=True)
        if asked:
            notice_on_commit(kind="cancel", conversation_id=run.conversation_id, run_id=run.pk)
    run_settle_if_expired(run_id=run_id)
    return run_body(access.run_get(user_id=user_id, run_id=run_id))


def _queued_cancel(run: Run) -> bool:
    """Settle a run that no runner has taken; False when one took it in this moment."""
    token = uuid.uuid4()
    with transaction.atomic():
        access.conversation_get(
            user_id=run.conversation.owner_id, conversation_id=run.conversation_id, lock=True
        )
        taken = Run.objects.filter(pk=run.pk, status=Run.Status.QUEUED).update(
            status=Run.Status.RUNNING, lease_token=token, lease_owner="cancel", cancel_requested=True
        )
        if not taken:
            return False
        run_settle(
            run_id=run.pk,
            conversation_id=run.conversation_id,
            token=token,
            last_seq=0,
            outcome=_NEVER_STARTED,
            append_events=True,
        )
    return True
