"""Keeping the evidence ledger of a conversation: one row, folded forward from where it stopped.

Any process may update any ledger at any time. A row lock makes updates follow each other, each is a transaction of its
own, and what to fold is decided under the lock; so a repeated, late or killed update changes nothing that the next one
would not do as well. Conversations are read here without their lock: a ledger must never hold up a turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Case, F, OuterRef, QuerySet, Subquery, TextField, Value, When

from agentx.llm.tokens import default_counter
from conversations.context.evidence import (
    Evidence,
    LedgerPrefixChanged,
    buckets_from_json,
    buckets_to_json,
    empty_evidence,
    extend_prefix,
    fold_messages,
)
from conversations.context.stored import tool_calls_from_json
from conversations.context.types import TranscriptMessage
from conversations.models import Conversation, EvidenceLedger, Message, Run

log = structlog.get_logger(__name__)

BATCH_MESSAGES = 500
REQUEST_MESSAGES = 400  # as many rows as a request reads of a conversation at most


def evidence_read(*, conversation_id: UUID) -> Evidence | None:
    """The stored ledger, by one query. None when there is none that may be shown: no row, a damaged one, or one from
    before an edit or deletion, which may quote what was withdrawn.
    """
    row = (
        EvidenceLedger.objects.filter(pk=conversation_id)
        .annotate(revision_now=F("conversation__revision"))
        .first()
    )
    if row is None or row.revision != row.revision_now:
        return None
    try:
        return _evidence(row)
    except ValueError as error:
        _log_damage(conversation_id, error)
        return None


def evidence_update(*, conversation_id: UUID, through_seq: int | None = None) -> int:
    """Fold what may be folded and has not been, up to ``through_seq`` if given; returns the cursor.

    What may be: everything up to the newest message, or, while a run is queued or running, what lies ahead of the
    message it answers. A call that comes late or twice changes nothing. Raises :class:`LedgerPrefixChanged`, and leaves
    the row as it was, when folded messages have been edited or deleted since.
    """
    if not _row_ensure(conversation_id):
        return 0
    while True:
        step = _step(conversation_id=conversation_id, through_seq=through_seq, most=BATCH_MESSAGES)
        if step is None or step.done:
            return 0 if step is None else step.cursor


def evidence_rebuild(*, conversation_id: UUID) -> int:
    """Forget the ledger and fold the live messages again, as after an edit; returns the cursor."""
    with transaction.atomic():
        row = EvidenceLedger.objects.select_for_update().filter(pk=conversation_id).first()
        if row is not None:
            _row_reset(row, bounds=_bounds(conversation_id))
    return evidence_update(conversation_id=conversation_id)


def evidence_refresh(*, conversation_id: UUID) -> int:
    """Update, and start again where an edit has made that necessary; returns the cursor."""
    try:
        return evidence_update(conversation_id=conversation_id)
    except LedgerPrefixChanged:
        log.info("evidence_rebuilt", conversation_id=str(conversation_id))
        return evidence_rebuild(conversation_id=conversation_id)


def evidence_catch_up_bounded(*, conversation_id: UUID, max_messages: int = REQUEST_MESSAGES) -> None:
    """What a request does when the ledger lags: fold at most the next ``max_messages``, or nothing. Never raises.

    It does not wait for a worker that is at it. After an edit the ledger is checked, and built again, here only when no
    more than ``max_messages`` had been folded; else the task after the turn does it, and until then there is none to
    read.
    """
    try:
        if _row_ensure(conversation_id):
            _step(conversation_id=conversation_id, through_seq=None, most=max_messages, on_request=True)
    except Exception as error:  # by type alone: the text of a database error quotes what people wrote
        log.error("evidence_not_caught_up", conversation_id=str(conversation_id), error=type(error).__name__)


# One step: a transaction that folds one batch


@dataclass(frozen=True, slots=True)
class _Step:
    """Where the ledger stands after a step, and whether there is nothing left to fold."""

    cursor: int
    done: bool


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The conversation as one statement saw it. ``limit``: the last seq that may be folded."""

    revision: int
    limit: int


def _step(
    *, conversation_id: UUID, through_seq: int | None, most: int, on_request: bool = False
) -> _Step | None:
    """Fold one batch of at most ``most`` messages. None when the row is gone or, on a request, busy."""
    with transaction.atomic():
        row = (
            EvidenceLedger.objects.select_for_update(skip_locked=on_request)
            .filter(pk=conversation_id)
            .first()
        )
        if row is None:
            return None
        bounds = _bounds(conversation_id)
        if on_request and row.revision != bounds.revision and row.cursor > most:
            return None
        evidence = _evidence_or_empty(row)
        try:
            _require_same_prefix(row, evidence=evidence, bounds=bounds)
        except LedgerPrefixChanged:
            if not on_request:
                raise
            _row_reset(row, bounds=bounds)
            evidence = empty_evidence(version=row.version)
        limit = bounds.limit if through_seq is None else min(bounds.limit, through_seq)
        if limit <= evidence.cursor:
            if row.revision != bounds.revision:
                EvidenceLedger.objects.filter(pk=conversation_id).update(revision=bounds.revision)
            return _Step(cursor=evidence.cursor, done=True)
        return _fold_batch(row, evidence=evidence, bounds=bounds, limit=limit, most=most)


def _fold_batch(row: EvidenceLedger, *, evidence: Evidence, bounds: _Bounds, limit: int, most: int) -> _Step:
    reading = _Reading(_live(row.pk).filter(seq__gt=evidence.cursor, seq__lte=limit).order_by("seq")[:most])
    folded = fold_messages(evidence=evidence, messages=reading, counter=default_counter())
    done = reading.count < most
    # Behind the last live row up to the limit there are only rows that were withdrawn: the fold stands over them too.
    row.cursor = limit if done else folded.cursor
    row.cursor_hash = _chain_hash(row.pk, seq=row.cursor)
    row.prefix_hash, row.omitted, row.version = folded.prefix_hash, folded.omitted, folded.version + 1
    row.buckets = buckets_to_json(evidence=folded)
    row.revision = bounds.revision
    row.save()
    return _Step(cursor=row.cursor, done=done)


class _Reading:
    """Live messages as values, read piece by piece, and how many there were. Results of tools are not read at all."""

    def __init__(self, rows: QuerySet[Message]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[TranscriptMessage]:
        said = Case(
            When(role=Message.Role.TOOL, then=Value("")), default=F("content"), output_field=TextField()
        )
        fields = self._rows.annotate(said=said).values_list(
            "id", "seq", "turn", "role", "said", "token_count", "tool_calls", "chain_hash"
        )
        for pk, seq, turn, role, content, tokens, calls, chain_hash in fields.iterator(chunk_size=100):
            self.count += 1
            yield TranscriptMessage(
                id=pk,
                seq=seq,
                turn=turn,
                role=role,
                content=content,
                tokens=tokens,
                tool_calls=tool_calls_from_json(calls),
                chain_hash=chain_hash,
            )


def _live(conversation_id: UUID) -> QuerySet[Message]:
    return Message.objects.filter(
        conversation_id=conversation_id, superseded_at__isnull=True, deleted_at__isnull=True
    )


def _bounds(conversation_id: UUID) -> _Bounds:
    """Asked under the ledger's lock and before messages are read.

    An edit that commits in between is then recorded under the old revision, so that the next step looks again.
    """
    active = Run.objects.filter(conversation=OuterRef("pk"), status__in=Run.ACTIVE)
    found = (
        Conversation.objects.filter(pk=conversation_id)
        .annotate(question=Subquery(active.values("user_message__seq")[:1]))
        .values_list("revision", "next_seq", "question")
        .first()
    )
    revision, next_seq, question = found or (0, 1, None)
    return _Bounds(revision=revision, limit=(next_seq if question is None else question) - 1)


def _require_same_prefix(row: EvidenceLedger, *, evidence: Evidence, bounds: _Bounds) -> None:
    """While the revision is the same, one hash is compared; else those of all live messages up to the cursor."""
    if evidence.cursor == 0:
        return
    if row.revision == bounds.revision:
        same = row.cursor_hash == _chain_hash(row.pk, seq=evidence.cursor)
    else:
        prefix = ""
        hashes = _live(row.pk).filter(seq__lte=evidence.cursor).order_by("seq")
        for chain_hash in hashes.values_list("chain_hash", flat=True).iterator(chunk_size=2000):
            prefix = extend_prefix(prefix, chain_hash)
        same = prefix == evidence.prefix_hash
    if not same:
        raise LedgerPrefixChanged(f"messages up to {evidence.cursor} have changed since they were folded")


def _chain_hash(conversation_id: UUID, *, seq: int) -> str:
    rows = Message.objects.filter(conversation_id=conversation_id, seq=seq)
    return rows.values_list("chain_hash", flat=True).first() or ""


# The row


def _row_ensure(conversation_id: UUID) -> bool:
    """Make the row if it is missing; False when the conversation is gone.

    In a transaction of its own, so that no lock on the ledger is held while the key of a conversation that is being
    deleted is checked.
    """
    if EvidenceLedger.objects.filter(pk=conversation_id).exists():
        return True
    if not Conversation.objects.filter(pk=conversation_id).exists():
        return False
    empty = EvidenceLedger(
        conversation_id=conversation_id, buckets=buckets_to_json(evidence=empty_evidence())
    )
    try:
        with transaction.atomic():
            EvidenceLedger.objects.bulk_create([empty], ignore_conflicts=True)
    except IntegrityError:
        if Conversation.objects.filter(pk=conversation_id).exists():
            raise
        return False  # deleted in this moment
    return True


def _row_reset(row: EvidenceLedger, *, bounds: _Bounds) -> None:
    """Empty a locked row. Its version goes on counting."""
    row.cursor, row.cursor_hash, row.prefix_hash, row.omitted = 0, "", "", 0
    row.buckets = buckets_to_json(evidence=empty_evidence())
    row.version += 1
    row.revision = bounds.revision
    row.save()


def _evidence(row: EvidenceLedger) -> Evidence:
    """The row as a value. Raises ``ValueError`` when its JSON is not what this module writes."""
    return Evidence(
        cursor=row.cursor,
        prefix_hash=row.prefix_hash,
        version=row.version,
        omitted=row.omitted,
        buckets=buckets_from_json(row.buckets),
    )


def _evidence_or_empty(row: EvidenceLedger) -> Evidence:
    """The row as a value; a damaged one counts as empty, so that it is folded again."""
    try:
        return _evidence(row)
    except ValueError as error:
        _log_damage(row.pk, error)
        return empty_evidence(version=row.version)


def _log_damage(conversation_id: UUID, error: ValueError) -> None:
    log.error("evidence_damaged", conversation_id=str(conversation_id), error=str(error))
