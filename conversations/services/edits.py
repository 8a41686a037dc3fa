"""The one door by which messages leave the live transcript: an edit, an answer asked for again, a deletion.

Rows are marked, never rewritten. Everything that was derived from them goes in the same transaction: digest segments,
entries of the search index, and, after a deletion, every stored text that may quote what was deleted. What is left
below the edit stays valid; the next turn begins a new epoch from there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import Literal
from uuid import UUID

import redis
import structlog
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from agentx.errors import NotFound, RunActive
from agentx.queue import enqueue_on_commit
from agentx.redis_client import redis_client
from conversations.context.evidence import buckets_to_json, empty_evidence
from conversations.models import (
    CompactionDigest,
    ContextEpoch,
    Conversation,
    EvidenceLedger,
    Message,
    Run,
)
from conversations.selectors.history import active_run
from conversations.selectors.snapshot import live_messages
from conversations.services.epochs import digest_lock
from conversations.services.index import entries_forget
from conversations.stream import head_key, log_key
from conversations.titles import derive_title
from tools.services.outputs import outputs_forget

log = structlog.get_logger(__name__)

EditReason = Literal["edit", "regenerate", "rewind"]

_VALID = (CompactionDigest.Status.ACTIVE, CompactionDigest.Status.MERGED)


def messages_supersede(*, conversation_id: UUID, from_seq: int, reason: EditReason) -> int:
    """Take every live message from ``from_seq`` on out of the conversation; returns how many that were.

    Raises ``NotFound``, and ``RunActive`` while an answer is being written: it would stand behind a question that is
    gone. A caller that has locked the conversation's row itself must have taken :func:`digest_lock` before.
    """
    with transaction.atomic():
        conversation = _edit_lock(conversation_id)
        seqs = list(
            live_messages(conversation_id=conversation_id)
            .filter(seq__gte=from_seq)
            .values_list("seq", flat=True)
        )
        if not seqs:
            return 0
        Message.objects.filter(conversation=conversation, seq__in=seqs).update(superseded_at=Now())
        _withdraw(conversation, seqs=seqs)
    log.info(
        "messages_superseded",
        conversation_id=str(conversation_id),
        from_seq=from_seq,
        messages=len(seqs),
        reason=reason,
    )
    return len(seqs)


def messages_delete(*, conversation_id: UUID, seqs: Collection[int]) -> int:
    """Mark messages, superseded ones too, as deleted and blank every copy of their words; returns how many were marked.

    The rows keep their text for the owner's export and the hash chain; nothing else does. Raises as
    :func:`messages_supersede`.
    """
    with transaction.atomic():
        conversation = _edit_lock(conversation_id)
        rows = Message.objects.filter(conversation=conversation, seq__in=list(seqs), deleted_at=None)
        marked = sorted(rows.values_list("seq", flat=True))
        if not marked:
            return 0
        rows.update(deleted_at=Now())
        _withdraw(conversation, seqs=marked)
        _quotes_blank(conversation, seqs=marked)
        outputs_forget(conversation_id=conversation_id, seqs=marked)
    log.info("messages_deleted", conversation_id=str(conversation_id), messages=len(marked))
    return len(marked)


def _edit_lock(conversation_id: UUID) -> Conversation:
    """Segments and the row locked, in the order in which an epoch change takes them."""
    digest_lock(conversation_id=conversation_id)
    conversation = Conversation.objects.select_for_update().filter(pk=conversation_id).first()
    if conversation is None:
        raise NotFound("There is no such conversation")
    run = active_run(conversation_id=conversation_id)
    if run is not None:
        raise RunActive(run_id=str(run.pk))
    return conversation


def _withdraw(conversation: Conversation, *, seqs: Sequence[int]) -> None:
    """What follows from messages having left the live transcript."""
    Conversation.objects.filter(pk=conversation.pk).update(revision=F("revision") + 1)
    _segments_invalidate(conversation, from_seq=min(seqs))
    entries_forget(conversation_id=conversation.pk, seqs=seqs)
    enqueue_on_commit("conversations.after_turn", conversation_id=conversation.pk)


def _segments_invalidate(conversation: Conversation, *, from_seq: int) -> None:
    """Segments that reach ``from_seq`` are void. Where that was a parent, children that lie below stand again."""
    rows = CompactionDigest.objects.filter(conversation=conversation, status__in=_VALID)
    rows.filter(through_seq__gte=from_seq).update(status=CompactionDigest.Status.INVALID)
    standing: list[int] = []
    reach = 0
    # Ranges nest or are apart, so the first of each beginning is the outermost.
    below = rows.order_by("from_seq", "-through_seq", "-level", "status")
    for pk, first, last in below.values_list("pk", "from_seq", "through_seq"):
        if first > reach:
            standing.append(pk)
            reach = last
    CompactionDigest.objects.filter(pk__in=standing, status=CompactionDigest.Status.MERGED).update(
        status=CompactionDigest.Status.ACTIVE
    )


def _quotes_blank(conversation: Conversation, *, seqs: Sequence[int]) -> None:
    """Blank whatever may hold words of deleted messages outside of their rows."""
    lowest = min(seqs)
    CompactionDigest.objects.filter(conversation=conversation, through_seq__gte=lowest).update(
        status=CompactionDigest.Status.INVALID, text="", identifiers=[]
    )
    # A frozen block quotes only what had left the view.
    ContextEpoch.objects.filter(conversation=conversation, cut_seq__gte=lowest).update(
        blocks=[], evidence=None
    )
    _ledger_empty(conversation)
    _tails_blank(conversation, seqs=frozenset(seqs))
    _title_blank(conversation, seqs=seqs)
    _logs_drop(conversation, seqs=seqs)


def _ledger_empty(conversation: Conversation) -> None:
    """Emptied at once, not only when it is built again. Its version goes on counting."""
    EvidenceLedger.objects.filter(pk=conversation.pk).update(
        cursor=0,
        cursor_hash="",
        prefix_hash="",
        omitted=0,
        version=F("version") + 1,
        buckets=buckets_to_json(evidence=empty_evidence()),
    )


def _tails_blank(conversation: Conversation, *, seqs: frozenset[int]) -> None:
    """The tail of a run holds the passages that were recalled for it, word for word."""
    runs = Run.objects.filter(conversation=conversation, view__recalled__0__isnull=False)
    quoting = [
        pk
        for pk, recalled in runs.values_list("pk", "view__recalled").iterator(chunk_size=500)
        if any(not seqs.isdisjoint(passage["seqs"]) for passage in recalled)
    ]
    for run in Run.objects.filter(pk__in=quoting).only("view"):
        run.view = {**(run.view or {}), "tail": ""}
        run.save(update_fields=["view"])


def _title_blank(conversation: Conversation, *, seqs: Sequence[int]) -> None:
    """A title that was made from a deleted message goes with it; the next message gives a new one.

    A model's is made from the first message, whichever that was at the time.
    """
    asked = Message.objects.filter(conversation=conversation, seq__in=seqs, role=Message.Role.USER)
    by_model = conversation.title_source == Conversation.TitleSource.MODEL and asked.exists()
    if by_model or (
        conversation.title
        and any(
            derive_title(content) == conversation.title
            for content in asked.order_by("seq").values_list("content", flat=True).iterator(chunk_size=100)
        )
    ):
        Conversation.objects.filter(pk=conversation.pk).update(title="", title_source="", title_asked=False)


def _logs_drop(conversation: Conversation, *, seqs: Sequence[int]) -> None:
    """Event logs of the runs that wrote deleted messages, which would end by themselves some hours later."""
    runs = set(
        Message.objects.filter(conversation=conversation, seq__in=seqs, run__isnull=False).values_list(
            "run_id", flat=True
        )
    )

    def drop() -> None:
        with contextlib.suppress(redis.exceptions.RedisError, OSError):
            redis_client().delete(*(key for run_id in runs for key in (log_key(run_id), head_key(run_id))))

    if runs:
        transaction.on_commit(drop)
