"""Stored conversations of any size, as if they had been led turn by turn: counts, hashes, index, segments, ledger.

Four thousand messages are written, counted and indexed by the product; larger conversations repeat them in another order.
The last turns are then really taken, from one cut until the next is due: so what is measured is an ordinary window.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from django.db import transaction

from agentx.llm.messages import UserMessage
from agentx.llm.tokens import default_counter
from conversations.context.chain import hash_message
from conversations.context.epoch import EpochPlan, plan_epoch
from conversations.context.segments import LEAF_TOKENS, Segment, merge_segments, write_leaves
from conversations.context.types import Snapshot
from tests.benchmarks.material.texts import ANSWER_TOKENS, QUESTION_TOKENS, write_message

BASE = 4_000
# Neighbouring places of a conversation hold texts that are far apart; odd, so that questions stay questions.
_STRIDE = 7_919
_MOST_RUNS = 24
# Messages that are summarized at once and in all, and the digest's size by default.
_CHUNK, _SUMMARIZED, _DIGEST_TOKENS = 500, 2_000, 1_500


@dataclass(frozen=True)
class Filled:
    """A conversation of ``size`` messages and then some turns, whose runs can each be prepared again and again."""

    conversation: UUID
    size: int
    runs: tuple[UUID, ...]
    cuts: int


@dataclass(frozen=True)
class Pool:
    """The texts, their stored token counts, and the conversation whose entries are copied."""

    conversation: UUID
    texts: tuple[str, ...]
    tokens: tuple[int, ...]

    def place(self, seq: int) -> int:
        return (seq * _STRIDE) % BASE


def pool_store(*, owner_id: int) -> Pool:
    """Write the base texts as a conversation of their own, and index it. Entry ``BASE`` stands for place 0."""
    from conversations.models import Conversation
    from conversations.services.index import entries_catch_up

    numbers, counter = random.Random(5), default_counter()
    texts = tuple(
        write_message(numbers, median_tokens=QUESTION_TOKENS if place % 2 else ANSWER_TOKENS)
        for place in range(BASE)
    )
    tokens = tuple(counter.count_message(UserMessage(content=text)) for text in texts)
    pool = Pool(Conversation.objects.create(owner_id=owner_id).pk, texts, tokens)
    _messages_copy(pool, pool.conversation, [(seq, seq % BASE) for seq in range(1, BASE + 1)])
    entries_catch_up(conversation_id=pool.conversation)
    return pool


def conversations_fill(*, pool: Pool, owner_id: int, sizes: Sequence[int], window: int) -> list[Filled]:
    """One conversation of each size, at a model window of ``window`` tokens."""
    from django.db import connection

    from conversations.models import Conversation
    from conversations.services.evidence import evidence_refresh

    made = {size: uuid4() for size in sizes}
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("SELECT pg_get_indexdef('message_entry_keys'::regclass)")
        definition = cursor.fetchone()[0]
        cursor.execute("DROP INDEX message_entry_keys")  # as any bulk load: built once
    for size, conversation in made.items():
        Conversation.objects.create(pk=conversation, owner_id=owner_id)
        _messages_copy(pool, conversation, [(seq, pool.place(seq)) for seq in range(1, size + 1)])
        with connection.cursor() as cursor:
            cursor.execute(
                _ENTRIES, {"to": conversation, "from": pool.conversation, "base": BASE, "stride": _STRIDE}
            )
        evidence_refresh(conversation_id=conversation)
    with connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = '512MB'")
        cursor.execute(definition)
        cursor.execute("ANALYZE")
    return [_lead_to_full_window(conversation, size, window) for size, conversation in made.items()]


def _messages_copy(pool: Pool, conversation: UUID, places: Sequence[tuple[int, int]]) -> None:
    """Messages by seq and place in the pool, with honest hashes and running totals, and the conversation's counters."""
    from django.db import connection

    from conversations.models import Conversation

    name, total, head = default_counter().name, 0, ""
    connection.ensure_connection()
    with connection.connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        for seq, place in places:
            role, text, tokens = "user" if seq % 2 else "assistant", pool.texts[place], pool.tokens[place]
            head = hash_message(
                previous=head, seq=seq, role=role, content=text, parts=[], tool_calls=[], tool_call_id=""
            )
            total += tokens
            said = (conversation, seq, (seq + 1) // 2, role, text, "[]", "[]", "", "complete")
            copy.write_row((*said, tokens, name, total, head, "{}", "2026-01-01T00:00:00Z"))
    last = places[-1][0]
    Conversation.objects.filter(pk=conversation).update(
        next_seq=last + 1, next_turn=last // 2 + 1, total_tokens=total, head_hash=head
    )


def _lead_to_full_window(conversation: UUID, size: int, window: int) -> Filled:
    """Take turns in one epoch of the view until the next is due; all of their runs are kept."""
    from conversations.evaluation.rehearsal import Rehearsal
    from conversations.models import Message
    from conversations.services.transcript import NewMessage

    numbers = random.Random(size)
    rehearsal = Rehearsal(conversation_id=conversation, window=window)
    question = write_message(numbers, median_tokens=QUESTION_TOKENS)
    _segments_backfill(conversation, question)
    runs: list[UUID] = []
    while len(runs) < _MOST_RUNS and (not runs or _next_plan(conversation, question) is None):
        asked = rehearsal.ask(question=question)
        runs.append(asked.run_id)
        answer = write_message(numbers, median_tokens=ANSWER_TOKENS)
        rehearsal.reply(asked=asked, messages=(NewMessage(role=Message.Role.ASSISTANT, content=answer),))
        question = write_message(numbers, median_tokens=QUESTION_TOKENS)
    return Filled(conversation, size, tuple(runs), rehearsal.count_cuts())


def _next_snapshot(conversation: UUID, question: str) -> Snapshot:
    """What would be read for a question that is not stored."""
    from conversations.context.types import TranscriptMessage
    from conversations.evaluation.rehearsal import MODEL
    from conversations.models import Conversation
    from conversations.selectors.snapshot import conversation_snapshot

    row = Conversation.objects.get(pk=conversation)
    tokens = default_counter().count_message(UserMessage(content=question))
    asked = TranscriptMessage(
        id=0, seq=row.next_seq, turn=row.next_turn, role="user", content=question, tokens=tokens
    )
    return conversation_snapshot(conversation=row, question=asked, model=MODEL)


def _next_plan(conversation: UUID, question: str) -> EpochPlan | None:
    return plan_epoch(snapshot=_next_snapshot(conversation, question), counter=default_counter())


def _segments_backfill(conversation: UUID, question: str) -> None:
    """Segments over everything that the first view will leave out, merged as they would have been on the way.

    Of long conversations only some messages are summarized, since the digest has the same size either way.
    """
    from conversations.models import CompactionDigest
    from conversations.selectors.snapshot import live_messages, transcript_message
    from conversations.services.epochs import segments_store

    plan = _next_plan(conversation, question)
    if plan is None or not plan.cut_seq:
        return
    step = 1 + plan.cut_seq // _SUMMARIZED
    active: tuple[Segment, ...] = ()
    for after in range(0, plan.cut_seq, _CHUNK * step):
        through = min(plan.cut_seq, after + _CHUNK * step)
        rows = live_messages(conversation_id=conversation).filter(seq__in=range(after + 1, through + 1, step))
        leaves = write_leaves(
            messages=[transcript_message(row) for row in rows.order_by("seq")],
            after_seq=after,
            through_seq=through,
            leaf_tokens=LEAF_TOKENS,
            text_tokens=_DIGEST_TOKENS // 5,
            counter=default_counter(),
        )
        active, _ = merge_segments(
            segments=(*active, *leaves), max_tokens=_DIGEST_TOKENS, counter=default_counter()
        )
    with transaction.atomic():
        segments_store(
            conversation_id=conversation, made=active, merged=(), reason=CompactionDigest.Reason.BACKFILL
        )


_COPY = """COPY conversations_message (conversation_id, seq, turn, role, content, parts, tool_calls, tool_call_id, status,
    token_count, tokenizer, cumulative_tokens, chain_hash, metadata, created_at) FROM STDIN"""
_ENTRIES = """
INSERT INTO conversations_messageentry (message_id, conversation_id, seq, role, length, words, vector)
SELECT m.id, m.conversation_id, m.seq, e.role, e.length, e.words, e.vector
FROM conversations_message m
JOIN conversations_messageentry e
    ON e.conversation_id = %(from)s AND e.seq = coalesce(nullif(m.seq * %(stride)s::bigint %% %(base)s, 0), %(base)s)
WHERE m.conversation_id = %(to)s
"""
