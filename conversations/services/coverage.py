"""Digest segments for messages that left the view without ever having been loaded.

A request reads a bounded number of rows, so the first turn of a conversation that came in whole cuts before most of it.
A notice stands for those messages until this has written segments for them, batch by batch, each a transaction of its
own under the conversation's digest lock. Where to go on is read from the segments themselves, so a batch that is
repeated, raced or killed changes nothing that the next one would not do as well. No epoch changes here: the next one
finds the segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import structlog
from django.db import transaction

from agentx.llm.tokens import default_counter
from conversations.context.budget import derive_budget, derive_reserves
from conversations.context.epoch import SegmentSizes, segment_sizes
from conversations.context.layout import FRAME_TOKENS
from conversations.context.segments import (
    Segment,
    covered_through,
    merge_segments,
    write_leaves,
)
from conversations.context.types import TranscriptMessage
from conversations.models import CompactionDigest, ContextEpoch, Conversation
from conversations.selectors.digests import segments_read
from conversations.selectors.model_profiles import (
    budget_rules,
    conversation_ratio,
    model_read,
    planned_window,
)
from conversations.selectors.snapshot import live_messages, transcript_message
from conversations.services.epochs import digest_lock, segments_store

log = structlog.get_logger(__name__)

# Rows a transaction reads at most: what somebody who waits for the lock waits for.
BATCH_MESSAGES = 500


def gap_cover(*, conversation_id: UUID) -> int:
    """Write segments for every live message up to the conversation's cut that has none; returns how many that were.

    After an edit nothing is done before the next epoch has begun, since only that knows where the cut is then.
    """
    covered = 0
    while batch := _batch_cover(conversation_id):
        covered += batch
    if covered:
        log.info("gap_covered", conversation_id=str(conversation_id), messages=covered)
    return covered


def _batch_cover(conversation_id: UUID) -> int:
    """One batch; the messages it covered, 0 when there is nothing to do."""
    with transaction.atomic():
        digest_lock(conversation_id=conversation_id)
        conversation = Conversation.objects.filter(pk=conversation_id).first()
        if conversation is None:
            return 0
        epoch = ContextEpoch.objects.filter(
            conversation=conversation, number=conversation.epoch, revision=conversation.revision
        )
        model = epoch.values_list("model", flat=True).first()
        if model is None:
            return 0
        active = segments_read(conversation_id=conversation_id)
        after = covered_through(active)
        behind = [segment for segment in active if segment.from_seq > after]
        limit = min(conversation.cut_seq, behind[0].from_seq - 1 if behind else conversation.cut_seq)
        messages, through = _messages_read(conversation_id, after=after, limit=limit)
        if not messages:
            return 0
        sizes = _sizes(conversation, model)
        leaves = write_leaves(
            messages=messages,
            after_seq=after,
            through_seq=through,
            leaf_tokens=sizes.source,
            text_tokens=sizes.text,
            counter=default_counter(),
        )
        before = active[: len(active) - len(behind)]
        _segments_add(conversation_id, (*before, *leaves, *behind), leaves, sizes)
        return len(messages)


def _segments_add(
    conversation_id: UUID, listed: Sequence[Segment], leaves: Sequence[Segment], sizes: SegmentSizes
) -> None:
    """Store leaves that are already part of the list ``listed``, merged where it has grown too long."""
    active, parents = merge_segments(segments=listed, max_tokens=sizes.listed, counter=default_counter())
    standing = {segment.anchor for segment in active}
    segments_store(
        conversation_id=conversation_id,
        made=(*leaves, *parents),
        merged=[segment for segment in (*listed, *parents) if segment.anchor not in standing],
        reason=CompactionDigest.Reason.BACKFILL,
    )


def _messages_read(
    conversation_id: UUID, *, after: int, limit: int
) -> tuple[tuple[TranscriptMessage, ...], int]:
    """The next live messages, of whole turns while more follow, and the seq up to which they are all there are."""
    rows = live_messages(conversation_id=conversation_id).filter(seq__gt=after, seq__lte=limit)
    found = [transcript_message(row) for row in rows.order_by("seq")[: BATCH_MESSAGES + 1]]
    if len(found) <= BATCH_MESSAGES:
        return tuple(found), limit
    following = found.pop()
    whole = [message for message in found if message.turn != following.turn]
    if whole:
        following = found[len(whole)] if len(whole) < len(found) else following
        found = whole
    return tuple(found), following.seq - 1


def _sizes(conversation: Conversation, model: str) -> SegmentSizes:
    """As an epoch of this conversation would choose them, but for the question, which is not known here."""
    known = model_read(model=model, reported_window=None)
    rules = budget_rules(known.profile)
    ratio = conversation_ratio(known=known, conversation=conversation)
    budget = int(derive_budget(window=planned_window(known.profile), rules=rules).tokens / ratio)
    reserves = derive_reserves(budget=budget, rules=rules)
    room = budget - reserves.slow - reserves.recall - 2 * FRAME_TOKENS
    return segment_sizes(reserves=reserves, room=room)
