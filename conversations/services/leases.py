"""Who owns a run: claiming, renewing, checkpointing, and settling what an owner left behind.

All times are the database's, so that clocks of machines do not matter. Every write by an owner names its token; a
settlement changes the token first, so that an owner that was only paused finds its own void.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import django.db
import redis
import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import ExpressionWrapper, Q
from django.db.models.fields import DateTimeField
from django.db.models.functions import Now

from agentx.accounts.selectors import user_role
from agentx.errors import LeaseLost
from agentx.redis_client import redis_client
from conversations.contracts import Outcome, RunClaim
from conversations.events import Delta, decode_event
from conversations.models import Run
from conversations.services.commit import run_settle
from conversations.services.terminal import INTERRUPTED
from conversations.stream import head_key, log_key

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Held:
    """A lease to renew."""

    run_id: UUID
    token: UUID


# One statement, since every turn waits for it: many that begin at once are claimed in one round trip.
_CLAIM = """
WITH due AS (
    SELECT id FROM conversations_run WHERE status = 'queued' ORDER BY created_at LIMIT %s FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE conversations_run AS r
    SET status = 'running', attempt = attempt + 1, lease_owner = %s, lease_token = gen_random_uuid(),
        lease_until = statement_timestamp() + make_interval(secs => %s),
        heartbeat_at = statement_timestamp(), started_at = statement_timestamp()
    FROM due WHERE r.id = due.id RETURNING r.*
)
SELECT t.id, t.conversation_id, c.owner_id, m.seq, t.model, t.lease_token, t.attempt,
    extract(epoch FROM t.started_at - t.created_at)::float8, m.turn,
    EXISTS (SELECT FROM conversations_steer s WHERE s.run_id = t.id AND s.message_id IS NULL), u.is_superuser
FROM taken t
JOIN conversations_conversation c ON c.id = t.conversation_id
JOIN conversations_message m ON m.id = t.user_message_id
JOIN accounts_user u ON u.id = c.owner_id
ORDER BY t.created_at
"""


def _lease_end() -> ExpressionWrapper:
    return ExpressionWrapper(
        Now() + timedelta(seconds=settings.RUN_LEASE_SECONDS), output_field=DateTimeField()
    )


def runs_claim(*, owner: str, limit: int) -> list[RunClaim]:
    """Take up to ``limit`` queued runs, oldest first, under a lease of ``RUN_LEASE_SECONDS``."""
    if limit <= 0:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [limit, owner, settings.RUN_LEASE_SECONDS])
        rows = cursor.fetchall()
    return [_claim(*row) for row in rows]


def _claim(
    run_id: UUID,
    conversation_id: UUID,
    user_id: int,
    seq: int,
    model: str,
    token: UUID,
    attempt: int,
    queued: float,
    turn: int,
    steered: bool,
    is_superuser: bool,
) -> RunClaim:
    """A row of :data:`_CLAIM`."""
    return RunClaim(
        run_id=run_id,
        conversation_id=conversation_id,
        user_id=user_id,
        user_message_seq=seq,
        model=model,
        token=token,
        attempt=attempt,
        queued_ms=max(0, round(queued * 1000)),
        turn=turn,
        steered=steered,
        role=user_role(is_superuser=is_superuser),
    )


@dataclass(frozen=True, slots=True)
class Renewal:
    """What became of a round of renewals. A run in neither set is ours, but its row was busy: try again."""

    renewed: set[UUID]
    lost: set[UUID]


def leases_renew(*, held: Sequence[Held]) -> Renewal:
    """Renew leases, all in one go; a row that somebody else has locked does not hold up the others."""
    tokens = {lease.run_id: lease.token for lease in held}
    ours = Run.objects.filter(pk__in=tokens, lease_token__in=tokens.values(), status=Run.Status.RUNNING)
    with transaction.atomic():
        free = set(ours.select_for_update(skip_locked=True).values_list("pk", flat=True))
        Run.objects.filter(pk__in=free).update(lease_until=_lease_end(), heartbeat_at=Now())
    still = free | set(ours.values_list("pk", flat=True))
    return Renewal(renewed=free, lost=tokens.keys() - still)


def checkpoint_save(*, claim: RunClaim, text: str, seq: int) -> bool:
    """Save a partial answer as of event ``seq``; False when the lease is lost."""
    ours = Run.objects.filter(pk=claim.run_id, lease_token=claim.token, status=Run.Status.RUNNING)
    return bool(ours.update(partial_text=text, partial_seq=seq))


def cancels_pending(*, run_ids: Sequence[UUID]) -> set[UUID]:
    """Which of these runs a person wants stopped."""
    return set(Run.objects.filter(pk__in=run_ids, cancel_requested=True).values_list("pk", flat=True))


def runs_reap(*, predecessor: str | None = None, instance: str | None = None) -> int:
    """Settle every run whose lease has run out; returns how many.

    ``predecessor`` names a runner whose earlier life (any owner ``<predecessor>/…`` but ``instance``) is known to be
    over, so that its runs need not wait for their leases.
    """
    overdue = Q(lease_until__lt=Now())
    if predecessor:
        overdue |= Q(lease_owner__startswith=f"{predecessor}/") & ~Q(lease_owner=instance or "")
    due = list(Run.objects.filter(Q(status=Run.Status.RUNNING) & overdue).values_list("pk", "lease_token"))
    settled = 0
    for run_id, token in due:
        try:
            settled += _settle_abandoned(run_id=run_id, token=token)
        except django.db.Error as error:  # its turn comes again; the others must not wait for it
            log.error("run_not_settled", run_id=str(run_id), error=type(error).__name__)
    return settled


def runs_settle_in_passing(*, user_id: int) -> None:
    """Before a user's runs are read: settle those whose lease has run out, also when no runner is left to do it."""
    due = Run.objects.filter(
        conversation__owner_id=user_id, status=Run.Status.RUNNING, lease_until__lt=Now()
    ).values_list("pk", "lease_token")
    for run_id, token in due:
        _settle_abandoned(run_id=run_id, token=token)


def run_settle_if_expired(*, run_id: UUID) -> bool:
    """Settle one run in passing when its lease has run out; returns whether it has ended."""
    row = Run.objects.filter(pk=run_id, status=Run.Status.RUNNING, lease_until__lt=Now()).first()
    if row is None or not _settle_abandoned(run_id=run_id, token=row.lease_token):
        return False
    return not Run.objects.filter(pk=run_id, status__in=Run.ACTIVE).exists()


def _settle_abandoned(*, run_id: UUID, token: UUID) -> bool:
    """Take over an abandoned run by changing its token, then store what had been shown.

    It is never executed again by itself: a token may have been seen, a tool may have been called. A person may.
    """
    mine = uuid.uuid4()
    taken = Run.objects.filter(pk=run_id, lease_token=token, status=Run.Status.RUNNING).update(
        lease_token=mine, lease_owner="reaper", lease_until=_lease_end()
    )
    if not taken:
        return False
    _log_fence(run_id=run_id, token=mine)
    row = Run.objects.filter(pk=run_id).first()
    if row is None:
        return False  # deleted with its conversation
    more, last_seq = _log_read(run_id=run_id, after=row.partial_seq)
    text = row.partial_text + more
    last_seq = max(last_seq, row.partial_seq)
    try:
        run_settle(
            run_id=run_id,
            conversation_id=row.conversation_id,
            token=mine,
            last_seq=last_seq,
            outcome=_abandoned_outcome(text=text, cancelled=row.cancel_requested, allocation=row.allocation),
            append_events=True,
        )
    except LeaseLost:
        return False  # deleted, or settled by another process, in this moment
    log.warning("run_interrupted", run_id=str(run_id), characters=len(text))
    return True


def _abandoned_outcome(*, text: str, cancelled: bool, allocation: dict | None) -> Outcome:
    return Outcome(
        status="cancelled" if cancelled else "interrupted",
        message_status="stopped" if cancelled else "interrupted",
        text=text,
        finish_reason="stopped" if cancelled else "interrupted",
        truncated=False,
        had_thinking=False,
        calls=(),
        error=None if cancelled else INTERRUPTED,
        first_token_ms=None,
        total_ms=None,
        allocation=allocation,
    )


def _log_read(*, run_id: UUID, after: int) -> tuple[str, int]:
    """The text that the event log adds to the checkpoint at event ``after``, and the log's last seq.

    No text when the log is gone or has a gap. What was said before the checkpoint may have been stored as a step.
    """
    text: list[str] = []
    last, whole = after, True
    with contextlib.suppress(redis.exceptions.RedisError, OSError, ValueError):
        for _, fields in redis_client().xrange(log_key(run_id), min=f"({after}-0"):
            seq, data = decode_event(fields[b"e"])
            whole = whole and seq == last + 1
            last = seq
            if isinstance(data, Delta):
                text.append(data.text)
    return "".join(text) if whole else "", last


def _log_fence(*, run_id: UUID, token: UUID) -> None:
    """Void the old owner's right to append. Without Redis there is nothing to append to either."""
    with contextlib.suppress(redis.exceptions.RedisError, OSError):
        redis_client().hset(head_key(run_id), "token", str(token))
