"""Hops 4 and 5 around one call: read, count exactly where that can be had, begin an epoch where one is due, assemble."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

import structlog

from agentx import metrics
from agentx.errors import ViewUnstable
from agentx.llm.counting import RequestCounter
from conversations.context.assemble import View, assemble_view, draft_request
from conversations.context.budget import derive_budget
from conversations.context.record import record_view
from conversations.context.render import hash_request
from conversations.context.types import Snapshot, TranscriptMessage
from conversations.selectors.snapshot import (
    Offer,
    Substitute,
    fit_tools,
    offer_nothing,
    snapshot_load,
    view_counter,
)
from conversations.services.patience import db_patiently
from conversations.services.prepare import epoch_settle

log = structlog.get_logger(__name__)

# How often a view is begun anew because another process moved the epoch in between.
ATTEMPTS = 3
# An exact ratio outside of these says that the server counted something else.
_LEAST_RATIO, _MOST_RATIO = 0.3, 5.0
# Requests below this share of the budget are not worth asking for an exact count.
_WORTH_COUNTING = 0.5


@dataclass(frozen=True, slots=True)
class Prepared:
    """A view that may be sent, with what the run will remember of it."""

    view: View
    record: dict[str, Any]
    snapshot: Snapshot


async def view_prepare(
    *,
    run_id: UUID,
    conversation_id: UUID,
    reported_window: int | None,
    request_counter: RequestCounter | None,
    window_cap: int | None = None,
    offer: Offer = offer_nothing,
    substitute: Substitute | None = None,
    base: Snapshot | None = None,
    added: tuple[TranscriptMessage, ...] = (),
) -> Prepared:
    """The view of a run's next call. ``window_cap``: tokens; a window that the provider has just refused to go beyond.

    ``base``: the snapshot of the call before it in this turn, which is extended instead of being read again; ``added``:
    what has followed the question in this turn; ``substitute``: the model that answers, where it is not the run's. Raises ``DoesNotFitError`` and ``ViewUnstable``; nothing may be sent then.
    """
    for _ in range(ATTEMPTS):
        if base is None:
            load = partial(
                snapshot_load,
                run_id=run_id,
                reported_window=reported_window,
                offer=offer,
                substitute=substitute,
            )
            snapshot = await db_patiently(load)
        else:
            snapshot, base = base, None
        snapshot = replace(snapshot, current=(snapshot.question, *added))
        if window_cap is not None:
            model = replace(snapshot.model, window=min(snapshot.model.window, window_cap))
            snapshot = replace(snapshot, model=model)
        if added or window_cap is not None:
            snapshot = _offer_again(snapshot, offer)
        snapshot = await _count_exactly(snapshot, request_counter)
        settled = await db_patiently(
            partial(epoch_settle, conversation_id=conversation_id, snapshot=snapshot)
        )
        if settled is not None:
            view = assemble_view(snapshot=settled, counter=view_counter(settled))
            if view.repaired:
                log.error("view_repaired", reason=view.repaired)
            return Prepared(view, record_view(view=view, snapshot=settled), settled)
    raise ViewUnstable


def _offer_again(snapshot: Snapshot, offer: Offer) -> Snapshot:
    """The tools for a turn that has gone on, or that has less room than was thought. None stay none."""
    if not snapshot.tools:
        return snapshot
    budget = derive_budget(window=snapshot.model.window, rules=snapshot.rules).tokens
    return replace(snapshot, tools=fit_tools(offer(snapshot.history, snapshot.current), budget=budget))


def without_tools(prepared: Prepared) -> Prepared:
    """The same view with nothing to call. Its budget still holds the tools, so that the epoch stays."""
    view = replace(prepared.view, tools=(), request_hash=hash_request(messages=prepared.view.messages))
    return replace(prepared, view=view, record=record_view(view=view, snapshot=prepared.snapshot))


async def _count_exactly(snapshot: Snapshot, request_counter: RequestCounter | None) -> Snapshot:
    """The snapshot with the ratio of exact to estimated tokens of this very request as its calibration.

    It decides about the cut, so the request is counted as it would be without one. Any failure leaves the estimate, with
    the reserve that an estimate needs.
    """
    if request_counter is None:
        return snapshot
    draft = draft_request(snapshot=snapshot, counter=view_counter(snapshot))
    if draft.tokens * snapshot.model.calibration < draft.budget * _WORTH_COUNTING:
        return snapshot
    exact = await request_counter.count_request(messages=draft.messages, tools=snapshot.tools)
    if exact is None:
        metrics.missed_count_count()
    ratio = (exact or 0) / max(1, draft.tokens)
    if not _LEAST_RATIO <= ratio <= _MOST_RATIO:
        return replace(snapshot, rules=replace(snapshot.rules, exact_counts=False))
    return replace(snapshot, model=replace(snapshot.model, calibration=ratio))
