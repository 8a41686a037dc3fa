"""Celery's door: what can wait. Every task survives running twice."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import structlog
from celery import shared_task

from conversations.selectors.lagging import conversations_lagging
from conversations.selectors.uncovered import conversations_uncovered
from conversations.services.coverage import gap_cover
from conversations.services.evidence import evidence_refresh
from conversations.services.index import entries_catch_up
from conversations.services.leases import runs_reap
from conversations.services.presence import presence_save

log = structlog.get_logger(__name__)


@shared_task(name="conversations.worker_seen", ignore_result=True)
def worker_seen() -> None:
    """Beat queues it, a worker runs it: both are alive when the row is fresh."""
    presence_save(role="worker", instance="any")


@shared_task(name="conversations.reap_runs", ignore_result=True)
def reap_runs() -> int:
    """Settle runs whose runner is gone, also when no runner is left to do it."""
    return runs_reap()


@shared_task(name="conversations.after_turn", ignore_result=True)
def after_turn(conversation_id: str) -> None:
    """What a conversation's next turns will want to find done. Queued with every end of a turn."""
    _after_turn(UUID(conversation_id))


@shared_task(name="conversations.after_turn_sweep", ignore_result=True)
def after_turn_sweep() -> int:
    """The same, and the covering of gaps, for conversations whose own tasks were lost; returns how many there were."""
    lagging = conversations_lagging()
    for conversation_id in lagging:
        _after_turn(conversation_id)
    uncovered = conversations_uncovered()
    for conversation_id in uncovered:
        _step(gap_cover, conversation_id)
    return len({*lagging, *uncovered})


@shared_task(name="conversations.cover_gap", ignore_result=True)
def cover_gap(conversation_id: str) -> None:
    """Segments for messages that left the view without ever having been loaded. Queued with an epoch that has such."""
    _step(gap_cover, UUID(conversation_id))


@shared_task(name="conversations.write_title", ignore_result=True)
def write_title(conversation_id: str) -> None:
    """A model's title for a conversation whose first turn has ended. A task of its own, since a model may take its time."""
    # Every process that queues tasks imports this module, and what speaks to models takes 46 MB of memory.
    from conversations.services.titles import title_write

    _step(title_write, UUID(conversation_id))


def _after_turn(conversation_id: UUID) -> None:
    _step(evidence_refresh, conversation_id)
    _step(entries_catch_up, conversation_id)


def _step(work: Callable[..., object], conversation_id: UUID) -> None:
    """One step, whose failure neither stops the others nor repeats them: the sweep comes back to it."""
    try:
        work(conversation_id=conversation_id)
    except Exception as error:  # by type alone: the text of a database error quotes what people wrote
        log.error(
            "after_turn_failed",
            step=work.__name__,
            conversation_id=str(conversation_id),
            error=type(error).__name__,
        )
