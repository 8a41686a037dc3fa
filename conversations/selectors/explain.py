"""What the model saw, for whoever asks why it answered as it did: read from a run, without asking anything again.

The same body also shows the next turn's view before it is sent (``conversations.services.preview``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from agentx.errors import Conflict, NotFound
from conversations.context.record import trace_fates
from conversations.context.segments import Segment
from conversations.context.types import FrozenBlock
from conversations.models import CompactionDigest, ContextEpoch, Conversation, Run
from conversations.selectors.digests import epoch_state
from conversations.selectors.rebuild import StoredView, may_show_block, may_show_tail, request_rebuild
from conversations.selectors.withdrawn import Withdrawn, withdrawn_read
from conversations.wire_context import (
    AllocationBody,
    AllocationRowBody,
    CallTokensBody,
    EpochBody,
    FateRangeBody,
    FatesBody,
    FrozenBlockBody,
    RecalledBody,
    RunContextBody,
    SegmentBody,
    ViewBody,
)

# Fates of more messages than this are not worked out at once.
MOST_FATES = 2_000
# What a run's record must have to be explained; another release may have kept less.
_NEEDED = frozenset(
    {
        *("epoch", "epoch_reason", "model", "strict_roles", "cut_seq", "covered_seq", "settled_seq"),
        *("first_seq", "through_seq", "question_seq", "sent", "shortened", "quoted", "recalled", "tail"),
        *("excerpt", "hash", "repaired"),
    }
)


def run_find(*, run_id: UUID) -> Run:
    """Anybody's run, for operators. Raises ``NotFound``."""
    row = Run.objects.select_related("user_message").filter(pk=run_id).first()
    if row is None:
        raise NotFound("There is no such run")
    return row


def run_context(
    *, run: Run, from_seq: int | None = None, through_seq: int | None = None, request: bool = False
) -> RunContextBody:
    """What the model saw in ``run``, whose access was checked. Three queries; two more with ``request``, and one more
    when the conversation was ever edited.

    ``from_seq``, ``through_seq``: limit the fates. Raises ``Conflict`` for a run that has not ended, and ``NotFound``
    for one that ended without a view.
    """
    record, allocation = _stored_record(run)
    epoch = _epoch_row(run, number=record["epoch"])
    revision = _revision(run) if epoch is None else epoch.conversation.revision
    withdrawn = Withdrawn()
    if revision:
        withdrawn = withdrawn_read(
            conversation_id=run.conversation_id,
            through_seq=record["question_seq"],
            moment=max(run.created_at, run.started_at or run.created_at),
        )
    state = None if epoch is None else epoch_state(epoch)
    stored = StoredView(
        record=record,
        blocks=None if state is None else state.blocks,
        fingerprint=None if state is None else state.fingerprint,
        withdrawn=withdrawn,
    )
    view = view_body(
        record=record,
        allocation=allocation,
        blocks=() if state is None else state.blocks,
        segments=() if epoch is None else epoch_segments(epoch=epoch, withdrawn=withdrawn),
        began_at=None if epoch is None else epoch.created_at,
        fates=fates_body(record=record, withdrawn=withdrawn, from_seq=from_seq, through_seq=through_seq),
        withdrawn=withdrawn,
    )
    return RunContextBody(
        run_id=run.pk,
        conversation_id=run.conversation_id,
        view=view,
        calls=_calls(run),
        request=request_rebuild(run=run, stored=stored) if request else None,
    )


def view_body(
    *,
    record: Mapping[str, Any],
    allocation: Mapping[str, Any],
    blocks: Sequence[FrozenBlock],
    segments: Sequence[SegmentBody],
    began_at: datetime | None,
    fates: FatesBody,
    withdrawn: Withdrawn,
) -> ViewBody:
    """A view as outsiders see it, from its record and allocation as a run keeps them, and its epoch."""
    return ViewBody(
        model=record["model"],
        question_seq=record["question_seq"],
        first_seq=record["first_seq"],
        through_seq=record["through_seq"],
        allocation=_allocation_body(allocation),
        epoch=EpochBody(
            number=record["epoch"],
            reason=record["epoch_reason"],
            cut_seq=record["cut_seq"],
            covered_seq=record["covered_seq"],
            settled_seq=record["settled_seq"],
            began_at=began_at,
        ),
        blocks=[_block_body(block, cut_seq=record["cut_seq"], withdrawn=withdrawn) for block in blocks],
        segments=list(segments),
        recalled=[
            RecalledBody(turn=passage["turn"], seqs=passage["seqs"], tokens=passage["tokens"])
            for passage in record["recalled"]
        ],
        tail=record["tail"] if may_show_tail(record, withdrawn=withdrawn) else None,
        excerpt=record["excerpt"],
        repaired=record["repaired"],
        fates=fates,
    )


def fates_body(
    *, record: Mapping[str, Any], withdrawn: Withdrawn, from_seq: int | None, through_seq: int | None
) -> FatesBody:
    """What became of the messages of a range before the question: of all without one, of the newest 2,000 at most."""
    newest: int = record["question_seq"] - 1
    last = newest if through_seq is None else min(through_seq, newest)
    wanted = max(1, from_seq or 1)
    first = max(wanted, last - MOST_FATES + 1)
    live = [seq for seq in range(first, last + 1) if not withdrawn.had_gone(seq)]
    return FatesBody(
        from_seq=first,
        through_seq=last,
        truncated=first > wanted,
        ranges=[
            FateRangeBody(from_seq=item.from_seq, through_seq=item.through_seq, fates=list(item.fates))
            for item in trace_fates(record=record, live_seqs=live)
        ],
    )


def epoch_segments(*, epoch: ContextEpoch, withdrawn: Withdrawn) -> tuple[SegmentBody, ...]:
    """The segments that an epoch began with, also those that others stand in for by now. One query, or none."""
    named: list[dict[str, Any]] = epoch.segments
    if not named:
        return ()
    rows = CompactionDigest.objects.filter(
        conversation_id=epoch.conversation_id,
        from_seq__in=[item["from_seq"] for item in named],
        source_hash__in=[item["source_hash"] for item in named],
    )
    found = {(row.from_seq, row.through_seq, row.source_hash, row.kind): row for row in rows}
    bodies: list[SegmentBody] = []
    for item in named:
        row = found.get((item["from_seq"], item["through_seq"], item["source_hash"], item["kind"]))
        shown = row is not None and not withdrawn.deletes_within(item["from_seq"], item["through_seq"])
        bodies.append(
            SegmentBody(
                from_seq=item["from_seq"],
                through_seq=item["through_seq"],
                kind=item["kind"],
                level=item["level"],
                tokens=None if row is None else row.tokens,
                identifiers=row.identifiers if row is not None and shown else [],
                text=row.text if row is not None and shown else None,
            )
        )
    return tuple(bodies)


def segment_body(segment: Segment) -> SegmentBody:
    """A segment that is not stored yet."""
    return SegmentBody(
        from_seq=segment.from_seq,
        through_seq=segment.through_seq,
        kind=segment.kind,
        level=segment.level,
        tokens=segment.tokens,
        identifiers=list(segment.identifiers),
        text=segment.text,
    )


def _stored_record(run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """The run's record and allocation."""
    if run.view is None or run.allocation is None:
        if run.status in Run.ACTIVE:
            raise Conflict(
                "What the model saw is stored when the run has ended; this one has not", run_id=str(run.pk)
            )
        raise NotFound(
            "Nothing is stored of what the model saw: the run ended before anything was sent, or its runner died"
        )
    record, allocation = cast("dict[str, Any]", run.view), cast("dict[str, Any]", run.allocation)
    if not record.keys() >= _NEEDED:
        raise NotFound("What the model saw was stored by another release, which kept less of it")
    return record, allocation


def _epoch_row(run: Run, *, number: int) -> ContextEpoch | None:
    rows = ContextEpoch.objects.filter(conversation_id=run.conversation_id, number=number)
    return rows.select_related("conversation").first()


def _revision(run: Run) -> int:
    return Conversation.objects.filter(pk=run.conversation_id).values_list("revision", flat=True).get()


def _allocation_body(allocation: Mapping[str, Any]) -> AllocationBody:
    return AllocationBody(
        window=allocation["window"],
        budget=allocation["budget"],
        used=allocation["used"],
        response=allocation["response"],
        tokenizer=allocation["tokenizer"],
        calibration=allocation["calibration"],
        predicted_cached=allocation["predicted_cached"],
        dropped_turns=allocation["dropped_turns"],
        rows=[
            AllocationRowBody(
                key=grant["key"], asked=grant["asked"], granted=grant["granted"], action=grant["action"]
            )
            for grant in allocation["grants"]
        ],
    )


def _block_body(block: FrozenBlock, *, cut_seq: int, withdrawn: Withdrawn) -> FrozenBlockBody:
    return FrozenBlockBody(
        key=block.key,
        tokens=block.tokens,
        asked=block.asked,
        action=block.action,
        quotes=list(block.seqs),
        text=block.content if may_show_block(block, cut_seq=cut_seq, withdrawn=withdrawn) else None,
    )


def _calls(run: Run) -> list[CallTokensBody]:
    return [
        CallTokensBody(
            call_index=call.call_index,
            estimated_prompt_tokens=call.estimated_prompt_tokens,
            prompt_tokens=call.prompt_tokens,
            predicted_cached_tokens=call.predicted_cached_tokens,
            cached_tokens=call.cached_tokens,
        )
        for call in run.model_calls.order_by("call_index")
    ]
