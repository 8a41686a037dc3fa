"""Bringing a conversation's view into its next epoch, and back to the truth after an edit.

Everything an epoch needs is stored in one transaction: segments first, then the epoch's row, then the conversation's
columns by compare-and-set. A process that dies on the way leaves the old epoch as it was; two that try get one epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import F

from agentx import metrics
from agentx.llm.messages import AssistantMessage
from agentx.queue import enqueue_on_commit
from conversations.context.epoch import EpochDraft, EpochPlan, begin_epoch
from conversations.context.evidence import Evidence
from conversations.context.forms import shape_messages
from conversations.context.segments import Segment
from conversations.context.types import EpochState, Snapshot
from conversations.models import CompactionDigest, ContextEpoch, Conversation
from conversations.selectors.digests import evidence_json, segments_read, with_evidence
from conversations.selectors.snapshot import view_counter
from conversations.services.evidence import evidence_catch_up_bounded, evidence_read
from conversations.services.index import entries_ensure

log = structlog.get_logger(__name__)


class EpochMoved(Exception):
    """Another process has begun an epoch, or someone edited the conversation, since the snapshot was read."""


def epoch_advance(
    *,
    conversation_id: UUID,
    snapshot: Snapshot,
    plan: EpochPlan,
    reason: CompactionDigest.Reason = CompactionDigest.Reason.JIT,
) -> EpochState:
    """Store the epoch that ``plan`` asks for and return its state. Raises ``EpochMoved`` and stores nothing then."""
    if snapshot.epoch.number:
        before = with_evidence(snapshot.epoch, conversation_id=conversation_id)
        snapshot = replace(snapshot, epoch=before)
    evidence = _stored_evidence(conversation_id, snapshot) if plan.cut_seq else None
    if plan.evicted:
        entries_ensure(conversation_id=conversation_id, through_seq=plan.cut_seq)
    with transaction.atomic():
        if plan.cut_seq:
            digest_lock(conversation_id=conversation_id)
        draft = begin_epoch(
            snapshot=snapshot,
            plan=plan,
            segments=segments_read(conversation_id=conversation_id) if plan.cut_seq else (),
            evidence=evidence,
            counter=view_counter(snapshot),
        )
        segments_store(
            conversation_id=conversation_id,
            made=(*draft.leaves, *draft.parents),
            merged=draft.merged,
            reason=reason,
        )
        _epoch_store(conversation_id, snapshot, plan, draft)
        if draft.state.covered_seq < draft.state.cut_seq:
            enqueue_on_commit("conversations.cover_gap", conversation_id=str(conversation_id))
    _log_epoch(plan, draft)
    metrics.epoch_count(
        reason=plan.reason, evicted=len(plan.evicted), shortened=_count_shortened(snapshot, plan)
    )
    return draft.state


def _stored_evidence(conversation_id: UUID, snapshot: Snapshot) -> Evidence | None:
    """The ledger, caught up within bounds, where the epoch cannot fold on from the one before it."""
    if snapshot.epoch.evidence is not None and not snapshot.unloaded:
        return None
    evidence_catch_up_bounded(conversation_id=conversation_id)
    return evidence_read(conversation_id=conversation_id)


def with_epoch(snapshot: Snapshot, state: EpochState) -> Snapshot:
    """The snapshot as it is in its next epoch, without what has left the view. Passages are those of the old one."""
    kept = tuple(message for message in snapshot.history if message.seq > state.cut_seq)
    return replace(snapshot, epoch=state, history=kept, unloaded=False, passages=())


def digest_lock(*, conversation_id: UUID) -> None:
    """The advisory lock for writing a conversation's segments, until the transaction ends. Reading needs none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"digests:{conversation_id}"]
        )


def segments_store(
    *,
    conversation_id: UUID,
    made: Sequence[Segment],
    merged: Sequence[Segment],
    reason: CompactionDigest.Reason,
) -> None:
    """Add segments and mark those that a parent stands in for; needs the digest lock. Storing one twice is one row."""
    rows = [
        CompactionDigest(
            conversation_id=conversation_id,
            level=segment.level,
            from_seq=segment.from_seq,
            through_seq=segment.through_seq,
            from_message_id=segment.from_id,
            through_message_id=segment.through_id,
            source_hash=segment.source_hash,
            prompt_version=segment.prompt_version,
            kind=segment.kind,
            reason=reason,
            status=CompactionDigest.Status.ACTIVE,
            text=segment.text,
            identifiers=list(segment.identifiers),
            tokens=segment.tokens,
            source_tokens=segment.source_tokens,
            messages=segment.messages,
        )
        for segment in made
    ]
    CompactionDigest.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["conversation", "from_seq", "through_seq", "source_hash", "prompt_version"],
        update_fields=["status", "text", "identifiers", "tokens"],
    )
    for segment in merged:
        CompactionDigest.objects.filter(
            conversation_id=conversation_id,
            from_seq=segment.from_seq,
            through_seq=segment.through_seq,
            source_hash=segment.source_hash,
            status=CompactionDigest.Status.ACTIVE,
        ).update(status=CompactionDigest.Status.MERGED)


def _epoch_store(conversation_id: UUID, snapshot: Snapshot, plan: EpochPlan, draft: EpochDraft) -> None:
    """The compare-and-set, then the row that explains it. Raises ``EpochMoved``."""
    state = draft.state
    moved = Conversation.objects.filter(
        pk=conversation_id, epoch=snapshot.epoch.number, revision=snapshot.revision
    ).update(
        epoch=state.number,
        cut_seq=state.cut_seq,
        cut_message_id=state.cut_message_id,
        settled_seq=state.settled_seq,
        compactions=F("compactions") + (1 if plan.evicted else 0),
    )
    if not moved:
        raise EpochMoved
    ContextEpoch.objects.create(
        conversation_id=conversation_id,
        number=state.number,
        reason=state.reason,
        cut_seq=state.cut_seq,
        cut_message_id=state.cut_message_id,
        settled_seq=state.settled_seq,
        covered_seq=state.covered_seq,
        revision=state.revision,
        model=state.model,
        fingerprint=state.fingerprint,
        evidence=None if state.evidence is None else evidence_json(state.evidence),
        blocks=[asdict(block) for block in state.blocks],
        segments=[
            {
                "from_seq": segment.from_seq,
                "through_seq": segment.through_seq,
                "source_hash": segment.source_hash,
                "kind": segment.kind,
                "level": segment.level,
            }
            for segment in draft.active
        ],
        history_tokens_before=plan.tokens_before,
        history_tokens_after=plan.tokens_after,
        messages_evicted=len(plan.evicted),
    )


def _log_epoch(plan: EpochPlan, draft: EpochDraft) -> None:
    state = draft.state
    log.info(
        "context_epoch",
        epoch=state.number,
        reason=state.reason,
        cut_seq=state.cut_seq,
        covered_seq=state.covered_seq,
        settled_seq=state.settled_seq,
        history_tokens_before=plan.tokens_before,
        history_tokens_after=plan.tokens_after,
        messages_evicted=len(plan.evicted),
        segments_written=len(draft.leaves),
        segments_merged=len(draft.merged),
    )


def _count_shortened(snapshot: Snapshot, plan: EpochPlan) -> int:
    """Tool calls that stay in view and whose arguments are clipped from this epoch on."""
    seen_whole = max(snapshot.epoch.settled_seq, plan.cut_seq)
    calling = [row for row in snapshot.history if row.tool_calls and seen_whole < row.seq <= plan.settled_seq]
    shaped = shape_messages(messages=calling, settled_seq=plan.settled_seq, counter=view_counter(snapshot))
    return sum(
        before != after
        for item in shaped
        if isinstance(item.value, AssistantMessage)
        for before, after in zip(item.message.tool_calls, item.value.tool_calls, strict=True)
    )
