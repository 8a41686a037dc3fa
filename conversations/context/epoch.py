"""When an epoch of the view ends, and what the next one is made of.

Within an epoch nothing in front of the volatile tail changes. It ends for a recorded reason: history outgrew its room, a
person edited something, or model, prompt or tools are others. Then everything that waited takes effect at once: the cut
moves, older messages are shortened, the slow blocks are rendered anew and frozen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from conversations.context.budget import Reserves
from conversations.context.cut import MOST_MESSAGES, Cut, find_cut
from conversations.context.evidence import (
    BUCKETS,
    Evidence,
    empty_evidence,
    fold_messages,
)
from conversations.context.forms import shape_messages
from conversations.context.layout import FRAME_TOKENS, Layout, lay_out
from conversations.context.render import fingerprint_prefix
from conversations.context.segments import (
    LEAF_TEXT_TOKENS,
    LEAF_TOKENS,
    Segment,
    covered_through,
    merge_segments,
    write_leaves,
)
from conversations.context.slow_blocks import freeze_blocks
from conversations.context.types import (
    EpochReason,
    EpochState,
    FrozenBlock,
    Snapshot,
    TokenCounter,
    TranscriptMessage,
)

# Shortening alone is enough when it brings history under this share of its room; else the next turn would be back.
_FORMS_ENOUGH = 0.75


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The next epoch's cut, before anything is written. ``evicted``: the live messages that leave the view now.

    ``tokens_before`` and ``tokens_after`` are those of history in view.
    """

    reason: EpochReason
    cut_seq: int
    cut_message_id: int | None
    settled_seq: int
    evicted: tuple[TranscriptMessage, ...]
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class EpochDraft:
    """All that has to be stored for an epoch to begin, and the state it begins with.

    ``leaves`` and ``parents`` are new segments; ``merged`` are the segments that the parents stand in for.
    """

    state: EpochState
    leaves: tuple[Segment, ...]
    parents: tuple[Segment, ...]
    merged: tuple[Segment, ...]
    active: tuple[Segment, ...]


def current_fingerprint(snapshot: Snapshot) -> str:
    """Hashes of model, system text and tools, joined."""
    pieces = fingerprint_prefix(
        model=snapshot.model.name,
        strict_roles=snapshot.model.strict_roles,
        system_prompt=snapshot.system_prompt,
        tools=snapshot.tools,
    )
    return ".".join(f"{key}={value}" for key, value in pieces.items())


def _epoch_fingerprint(snapshot: Snapshot) -> str:
    """Of the model whose epoch it is, so that its return ends nothing."""
    epoch = snapshot.epoch
    return epoch.fingerprint if snapshot.model.stands_in and epoch.number else current_fingerprint(snapshot)


def plan_epoch(*, snapshot: Snapshot, counter: TokenCounter) -> EpochPlan | None:
    """The next epoch if this one is over, else None. Raises ``DoesNotFitError`` as :func:`lay_out` does."""
    layout = lay_out(snapshot=snapshot, counter=counter)
    epoch = snapshot.epoch
    before = sum(item.tokens for item in layout.shaped)
    reason = _outside_reason(snapshot)
    crowded = len(layout.shaped) > MOST_MESSAGES or snapshot.unloaded
    # Without history, only slow blocks can give way to a large question.
    overfull = before > layout.history if before else layout.history + layout.tail < 0
    if reason is None and not crowded and not overfull:
        return None

    newest = snapshot.history[-1].seq if snapshot.history else epoch.settled_seq
    sendable = [item.message for item in layout.shaped]
    settled = shape_messages(messages=sendable, settled_seq=newest, counter=counter)
    after = sum(item.tokens for item in settled)
    if not crowded:
        room = _room_without_cut(layout, epoch)
        enough = room if reason else int(room * _FORMS_ENOUGH)
        if after <= enough and (reason or after < before):
            uncut = Cut(kept=settled, tokens=after, evicted=0)
            return _plan(snapshot, reason or "forms", uncut, before=before, settled_seq=newest)
    room = _room_with_cut(layout)
    low = int((room + layout.current.tokens) * snapshot.rules.low_watermark)
    cut = find_cut(shaped=settled, target=max(0, min(low, room)), room=max(0, int(room * _FORMS_ENOUGH)))
    return _plan(snapshot, reason or "cut", cut, before=before, settled_seq=newest)


def _outside_reason(snapshot: Snapshot) -> EpochReason | None:
    """What ended the epoch other than size, the weightiest first."""
    epoch = snapshot.epoch
    if epoch.number == 0:
        return "start"
    if snapshot.revision != epoch.revision:
        return "edit"
    if snapshot.model.stands_in:
        return None
    was = dict(piece.split("=", 1) for piece in epoch.fingerprint.split("."))
    now = dict(piece.split("=", 1) for piece in current_fingerprint(snapshot).split("."))
    for reason in ("model", "prompt", "tools"):
        if was.get(reason) != now[reason]:
            return reason
    return None


def _room_without_cut(layout: Layout, epoch: EpochState) -> int:
    """History's room if the cut stays: slow blocks may grow to their reserves where there are any."""
    frozen = layout.reserves.slow + FRAME_TOKENS if epoch.cut_seq else 0
    return layout.total - layout.fixed - layout.current.tokens - layout.tail - max(frozen, layout.frozen)


def _room_with_cut(layout: Layout) -> int:
    reserved = layout.reserves.slow + layout.reserves.recall + 2 * FRAME_TOKENS
    return layout.total - layout.fixed - layout.current.tokens - reserved


def _plan(snapshot: Snapshot, reason: EpochReason, cut: Cut, *, before: int, settled_seq: int) -> EpochPlan:
    """The plan that keeps what the cut keeps, anchored to the live message before the first of it."""
    history, epoch = snapshot.history, snapshot.epoch
    evicted: tuple[TranscriptMessage, ...] = ()
    if cut.evicted:
        first = cut.first.message.seq if cut.first else settled_seq + 1
        evicted = tuple(message for message in history if message.seq < first)
    cut_seq, cut_id = epoch.cut_seq, epoch.cut_message_id
    if evicted:
        cut_seq, cut_id = evicted[-1].seq, evicted[-1].id
    elif snapshot.unloaded and history:
        cut_seq, cut_id = history[0].seq - 1, None
    return EpochPlan(
        reason=reason,
        cut_seq=cut_seq,
        cut_message_id=cut_id,
        settled_seq=max(settled_seq, epoch.settled_seq),
        evicted=evicted,
        tokens_before=before,
        tokens_after=cut.tokens,
    )


def begin_epoch(
    *,
    snapshot: Snapshot,
    plan: EpochPlan,
    segments: Sequence[Segment],
    evidence: Evidence | None,
    counter: TokenCounter,
) -> EpochDraft:
    """The epoch that ``plan`` asks for: segments for what leaves the view, and its slow blocks, rendered once.

    ``evidence``: the stored ledger, which may be ahead of the cut or behind it.

    ``segments``: the conversation's active ones, in order, each over live messages. Where they do not reach to what
    leaves the view (a conversation that came in whole, or a part that was never loaded), a notice names the messages
    that nothing stands for, and those that are at hand are quoted by rule in this epoch.
    """
    layout = lay_out(snapshot=snapshot, counter=counter)
    known = tuple(segment for segment in segments if segment.from_seq <= plan.cut_seq)
    sizes = segment_sizes(reserves=layout.reserves, room=_room_with_cut(layout))
    leaves = _leaves(snapshot, plan, known, sizes, counter)
    active, parents = merge_segments(segments=(*known, *leaves), max_tokens=sizes.listed, counter=counter)
    standing = {segment.anchor for segment in active}
    covered = covered_through(active)
    evidence, whole = _evidence_at_cut(snapshot, plan, evidence, counter)
    blocks: tuple[FrozenBlock, ...] = ()
    if plan.cut_seq:
        room = max(0, _room_with_cut(layout) + layout.reserves.slow - plan.tokens_after)
        blocks = freeze_blocks(
            snapshot=snapshot,
            cut_seq=plan.cut_seq,
            evicted=plan.evicted,
            active=active,
            covered=covered,
            evidence=evidence,
            layout=layout,
            room=room,
            counter=counter,
        )
    state = EpochState(
        number=snapshot.epoch.number + 1,
        reason=plan.reason,
        cut_seq=plan.cut_seq,
        cut_message_id=plan.cut_message_id,
        covered_seq=covered,
        settled_seq=plan.settled_seq,
        revision=snapshot.revision,
        model=snapshot.model.name,
        fingerprint=_epoch_fingerprint(snapshot),
        blocks=blocks,
        evidence=evidence if whole else None,
    )
    return EpochDraft(
        state=state,
        leaves=leaves,
        parents=parents,
        merged=tuple(segment for segment in (*known, *leaves, *parents) if segment.anchor not in standing),
        active=active,
    )


def _evidence_at_cut(
    snapshot: Snapshot, plan: EpochPlan, stored: Evidence | None, counter: TokenCounter
) -> tuple[Evidence, bool]:
    """The evidence as it stood when the last message before the cut had been said, and whether nothing is missing in it.

    The stored ledger is ahead of the cut: in its buckets, what is still in view crowds out what is not. So each epoch
    folds on from where the one before it stopped; where that is not possible, what the stored one has must do. When that
    one lags, messages between it and the view are in neither, and no later epoch may fold on from there.
    """
    base, start = snapshot.epoch.evidence, snapshot.epoch.cut_seq
    if snapshot.unloaded and snapshot.history:
        start = snapshot.history[0].seq - 1
    if base is None or snapshot.unloaded:
        base = stored or empty_evidence()
        reach = plan.cut_seq if snapshot.unloaded else snapshot.epoch.cut_seq
        base = replace(
            base,
            cursor=min(base.cursor, reach) if snapshot.epoch.cut_seq or snapshot.unloaded else 0,
            buckets={
                key: tuple(entry for entry in base.buckets[key] if entry.seq <= reach) for key in BUCKETS
            },
        )
    fresh = [message for message in plan.evicted if message.seq > base.cursor]
    return fold_messages(evidence=base, messages=fresh, counter=counter), base.cursor >= start


def _leaves(
    snapshot: Snapshot,
    plan: EpochPlan,
    known: Sequence[Segment],
    sizes: SegmentSizes,
    counter: TokenCounter,
) -> tuple[Segment, ...]:
    """Leaves for the evicted messages that no segment covers; none where a gap lies before them."""
    covered = covered_through(known)
    fresh = tuple(message for message in plan.evicted if message.seq > covered)
    if not fresh or snapshot.unloaded or covered < snapshot.epoch.cut_seq:
        return ()
    return write_leaves(
        messages=fresh,
        after_seq=covered,
        through_seq=plan.cut_seq,
        leaf_tokens=sizes.source,
        text_tokens=sizes.text,
        counter=counter,
    )


@dataclass(frozen=True, slots=True)
class SegmentSizes:
    """In tokens. ``source``: transcript of one leaf; ``text``: its text; ``listed``: the whole list before it merges."""

    source: int
    text: int
    listed: int


def segment_sizes(*, reserves: Reserves, room: int) -> SegmentSizes:
    """Sizes for a history of ``room`` tokens: a leaf never stands for more than a third of it, and several have room in
    the digest before the first merge."""
    return SegmentSizes(
        source=max(1, min(LEAF_TOKENS, room // 3)),
        text=max(24, min(LEAF_TEXT_TOKENS, reserves.digest // 5)),
        listed=reserves.digest - 2 * FRAME_TOKENS,
    )
