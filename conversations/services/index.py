"""Keeping the search index in step with the transcript.

Messages are only ever appended, one after another, so the highest indexed seq says where to go on. Any number of workers
may do this at once: they write the same entries, and the first one wins.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

import structlog
from django.db import IntegrityError
from django.db.models import Max
from django.db.models.functions import Left

from agentx.llm.embeddings import default_embedder
from conversations.context.words import index_words, render_lexemes
from conversations.models import Conversation, Message, MessageEntry

log = structlog.get_logger(__name__)

BATCH = 500
# A tool's result may be a whole file; what follows its first pages is found by reading it, not by search.
INDEXED_CHARACTERS = 20_000


def entries_catch_up(*, conversation_id: UUID) -> int:
    """Index every message that has no entry yet, in order of seq; returns how many were looked at. Safe to repeat."""
    return _index(conversation_id, through_seq=None)


def entries_ensure(*, conversation_id: UUID, through_seq: int) -> None:
    """The same up to ``through_seq``, one batch of it: before a cut moves there, what leaves the view must be found.

    This stands in a turn's way, so a conversation that came in whole is left to the task that follows the turn, and so
    is whatever fails: never raises.
    """
    try:
        _index(conversation_id, through_seq=through_seq, most=BATCH)
    except Exception as error:  # by type alone: the text of a database error quotes what people wrote
        log.error("index_not_caught_up", conversation_id=str(conversation_id), error=type(error).__name__)


def entries_forget(*, conversation_id: UUID, seqs: Collection[int]) -> None:
    """Remove the entries of messages that were superseded or deleted."""
    MessageEntry.objects.filter(conversation=conversation_id, seq__in=list(seqs)).delete()


def _index(conversation_id: UUID, *, through_seq: int | None, most: int | None = None) -> int:
    newest = MessageEntry.objects.filter(conversation=conversation_id).aggregate(newest=Max("seq"))["newest"]
    after, done = newest or 0, 0
    while rows := _messages_after(conversation_id, after=after, through_seq=through_seq):
        try:
            MessageEntry.objects.bulk_create(_entries(conversation_id, rows), ignore_conflicts=True)
        except IntegrityError:
            if Conversation.objects.filter(pk=conversation_id).exists():
                raise
            return done  # deleted meanwhile, and its messages with it
        _forget_withdrawn(conversation_id, rows)
        after, done = rows[-1].seq, done + len(rows)
        if most is not None and done >= most:
            break
    return done


def _forget_withdrawn(conversation_id: UUID, rows: Sequence[Message]) -> None:
    """Entries of messages that were taken back after they had been read here.

    An edit locks the conversation's row, for which the new entries' foreign key waits; so it sees them, or is seen here.
    """
    gone = Message.objects.filter(conversation=conversation_id, seq__in=[row.seq for row in rows]).exclude(
        superseded_at=None, deleted_at=None
    )
    if withdrawn := list(gone.values_list("pk", flat=True)):
        MessageEntry.objects.filter(pk__in=withdrawn).delete()


def _messages_after(conversation_id: UUID, *, after: int, through_seq: int | None) -> Sequence[Message]:
    rows = Message.objects.filter(
        conversation=conversation_id, seq__gt=after, superseded_at=None, deleted_at=None
    )
    if through_seq is not None:
        rows = rows.filter(seq__lte=through_seq)
    rows = rows.order_by("seq").annotate(indexed_text=Left("content", INDEXED_CHARACTERS))
    return list(rows.only("pk", "seq", "role")[:BATCH])


def _entries(conversation_id: UUID, rows: Sequence[Message]) -> list[MessageEntry]:
    texts: list[str] = [row.indexed_text for row in rows]  # pyright: ignore[reportAttributeAccessIssue]
    embedder = default_embedder()
    vectors = embedder.embed(texts) if embedder else [None] * len(texts)
    entries: list[MessageEntry] = []
    for row, text, vector in zip(rows, texts, vectors, strict=True):
        words = index_words(text)
        entries.append(
            MessageEntry(
                message_id=row.pk,
                conversation_id=conversation_id,
                seq=row.seq,
                role=row.role,
                length=len(words),
                words=render_lexemes(words),
                vector=vector if vector and any(vector) else None,
            )
        )
    return entries
