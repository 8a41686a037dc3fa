"""Between reading and assembling: the view's next epoch, where one is due, stored before anything is sent."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import structlog

from agentx.errors import ViewUnstable
from conversations.context.epoch import plan_epoch
from conversations.context.types import Snapshot
from conversations.selectors.snapshot import passages_read, view_counter
from conversations.services.epochs import EpochMoved, epoch_advance, with_epoch

log = structlog.get_logger(__name__)


def epoch_settle(*, conversation_id: UUID, snapshot: Snapshot) -> Snapshot | None:
    """The snapshot in an epoch that has room for it; None when another process moved the epoch: then read it again.

    Raises ``DoesNotFitError`` when the question cannot fit, and ``ViewUnstable`` when a new epoch has no room either:
    two cuts without a turn between them would be a loop.
    """
    counter = view_counter(snapshot)
    plan = plan_epoch(snapshot=snapshot, counter=counter)
    if plan is None:
        return snapshot
    try:
        state = epoch_advance(conversation_id=conversation_id, snapshot=snapshot, plan=plan)
    except EpochMoved:
        log.info("epoch_moved", epoch=snapshot.epoch.number)
        return None
    settled = with_epoch(snapshot, state)
    if plan_epoch(snapshot=settled, counter=counter) is not None:
        log.error("view_unstable", epoch=state.number, history=len(settled.history))
        raise ViewUnstable
    return replace(settled, passages=passages_read(conversation_id=conversation_id, snapshot=settled))
