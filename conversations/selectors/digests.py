"""Digest segments and epochs as the engine's values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import structlog

from conversations.context.evidence import Evidence, buckets_from_json, buckets_to_json
from conversations.context.segments import Segment
from conversations.context.types import EpochState, FrozenBlock
from conversations.models import CompactionDigest, ContextEpoch
from conversations.selectors.snapshot_rows import epoch_row

log = structlog.get_logger(__name__)


def segments_read(*, conversation_id: UUID) -> tuple[Segment, ...]:
    """The active segments of a conversation in order of their ranges. Their number grows with its logarithm."""
    rows = CompactionDigest.objects.filter(
        conversation_id=conversation_id, status=CompactionDigest.Status.ACTIVE
    ).order_by("from_seq", "through_seq")
    return tuple(
        Segment(
            level=row.level,
            from_seq=row.from_seq,
            through_seq=row.through_seq,
            from_id=row.from_message_id,
            through_id=row.through_message_id,
            source_hash=row.source_hash,
            kind=cast(Any, row.kind),
            prompt_version=row.prompt_version,
            text=row.text,
            identifiers=tuple(row.identifiers),
            tokens=row.tokens,
            source_tokens=row.source_tokens,
            messages=row.messages,
        )
        for row in rows
    )


def epoch_read(*, conversation_id: UUID, number: int) -> EpochState:
    """The state of one epoch; the empty state for number 0. Raises ``ContextEpoch.DoesNotExist``.

    Without its evidence, which only the next epoch needs (see :func:`with_evidence`).
    """
    if number == 0:
        return EpochState()
    return epoch_state(epoch_row(conversation_id=conversation_id, number=number))


def with_evidence(state: EpochState, *, conversation_id: UUID) -> EpochState:
    """The state with the evidence as it stood at its cut, for the epoch that folds on from there. One query.

    Without any where an edit has moved the state's cut back, or where what is stored cannot be read: the ledger must do.
    """
    rows = ContextEpoch.objects.filter(
        conversation_id=conversation_id, number=state.number, cut_seq=state.cut_seq
    )
    try:
        evidence = _evidence(rows.values_list("evidence", flat=True).first())
    except (ValueError, KeyError, TypeError) as error:
        log.error(
            "epoch_evidence_damaged",
            conversation_id=str(conversation_id),
            epoch=state.number,
            error=type(error).__name__,
        )
        evidence = None
    return replace(state, evidence=evidence)


def epoch_state(row: ContextEpoch) -> EpochState:
    """A stored epoch as the engine sees it."""
    return EpochState(
        number=row.number,
        reason=cast(Any, row.reason),
        cut_seq=row.cut_seq,
        cut_message_id=row.cut_message_id,
        covered_seq=row.covered_seq,
        settled_seq=row.settled_seq,
        revision=row.revision,
        model=row.model,
        fingerprint=row.fingerprint,
        blocks=tuple(FrozenBlock(**{**block, "seqs": tuple(block["seqs"])}) for block in row.blocks),
    )


def evidence_json(evidence: Evidence) -> dict[str, Any]:
    """An epoch's evidence as its row keeps it."""
    return {
        "cursor": evidence.cursor,
        "prefix_hash": evidence.prefix_hash,
        "omitted": evidence.omitted,
        "buckets": buckets_to_json(evidence=evidence),
    }


def _evidence(stored: dict[str, Any] | None) -> Evidence | None:
    if stored is None:
        return None
    return Evidence(
        cursor=stored["cursor"],
        prefix_hash=stored["prefix_hash"],
        version=0,
        omitted=stored["omitted"],
        buckets=buckets_from_json(stored["buckets"]),
    )
