"""How much of what a question needs is in front of the model, and what finding it costs.

Retention: long dialogues are stored as conversations, and each question about them is asked at the end. A question counts
when *all* its evidence messages are in view: verbatim in the newest turns that the budget holds, or in a passage that
recall brings back, whole or at least 60 % of it. The budget is filled: history takes what recall leaves. Storage, index
and search are the product's own, on a real PostgreSQL. The dialogues are read from ``AGENTX_BENCH_DATA`` and never kept.

Search time: conversations of 1,000 and of 100,000 messages among 600,000 entries of synthetic text with a Zipf vocabulary.
"""

from __future__ import annotations

import json
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import django

from tests.benchmarks.figures import Figure, percentile
from tests.stack import running_stack

BUDGETS = (4_000, 8_000, 16_000)
DEFAULT_TOKENS, SHARE = 1_000, 0.35
DEFAULT_FLOORS, SHARE_FLOORS, TOOL_FLOORS = (73, 77, 89), (75, 83, 93), (70, 76)
ENOUGH_OF_A_MESSAGE = 0.6
# Multi-hop, temporal, open-domain, single-hop; the fifth category asks for what was never said.
CATEGORIES = (1, 2, 3, 4)

ROWS, LONG, SHORT = 600_000, 100_000, 1_000
BASE = 10_000
QUERIES, FUNCTION_WORDS = 150, 50
NEED_NOTHING = (
    "thanks!",
    "ok go on",
    "Great, thank you so much",
    "yes please",
    "continue",
    "Danke dir!",
    "谢谢",
)


def run() -> list[Figure]:
    """Measure; about six minutes on two idle cores."""
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder), processes=()) as stack:
        _use_database(stack.database_url)
        try:
            return [*_retention(), *_search_time()]
        finally:
            _leave_database()


def _use_database(url: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentx.settings.test")
    os.environ.setdefault("REDIS_URL", os.environ["AGENTX_TEST_REDIS"])
    django.setup()
    from django.db import connection

    _leave_database()
    connection.settings_dict["NAME"] = url.split("?", 1)[0].rsplit("/", 1)[1]


def _leave_database() -> None:
    from django.db import connection

    connection.close()
    connection.close_pool()


# Retention


@dataclass(frozen=True)
class Dialogue:
    """A stored dialogue. ``rows``: (seq, turn, tokens, text) in order; ``questions``: text and seqs of the evidence."""

    conversation: UUID
    rows: tuple[tuple[int, int, int, str], ...]
    questions: tuple[tuple[str, tuple[int, ...]], ...]


def _retention() -> list[Figure]:
    from agentx.settings.env import read

    folder = read("AGENTX_BENCH_DATA")
    files = sorted(folder.glob("*.json")) if folder is not None else []
    if not files:
        print("retention SKIPPED: AGENTX_BENCH_DATA names no folder with dialogues")
        return []
    dialogues = [_store(raw) for path in files for raw in json.loads(path.read_text())]
    window = [_share_of(dialogues, budget, lambda *_: ()) for budget in BUDGETS]
    figures = [
        *_by_budget("all evidence in view, 1,000 tokens of recall", dialogues, window, DEFAULT_FLOORS),
        *_by_budget("the same by words alone", dialogues, window, None, vector_weight=0.0),
        *_by_budget(
            "all evidence in view, share alone", dialogues, window, SHARE_FLOORS, share=True, falloff=0.0
        ),
        *_by_budget(
            "the same by words alone",
            dialogues,
            window,
            None,
            share=True,
            falloff=0.0,
            vector_weight=0.0,
        ),
        *_tool(dialogues),
        _need_nothing(dialogues),
    ]
    print(f"{sum(len(dialogue.questions) for dialogue in dialogues)} questions, {len(dialogues)} dialogues")
    return figures


def _store(raw: dict[str, Any]) -> Dialogue:
    """A dialogue as a conversation: the first speaker is the user, and each line begins with its speaker's name, as in
    any imported chat."""
    from django.contrib.auth import get_user_model
    from django.db import transaction

    from conversations.models import Conversation, Message
    from conversations.services.index import entries_catch_up
    from conversations.services.transcript import NewMessage, conversation_counters_save, message_append

    owner, _ = get_user_model().objects.get_or_create(username="bench")
    conversation = Conversation.objects.create(owner=owner)
    first = raw["messages"][0]["speaker"]
    turn, seqs, rows = 0, {}, []
    with transaction.atomic():
        for said in raw["messages"]:
            is_user = said["speaker"] == first
            turn += int(is_user or turn == 0)
            role = Message.Role.USER if is_user else Message.Role.ASSISTANT
            text = f"{said['speaker']}: {said['text']}"
            row = message_append(
                conversation=conversation, new=NewMessage(role=role, content=text), turn=turn
            )
            seqs[said["id"]] = row.seq
            rows.append((row.seq, turn, row.token_count, text))
        conversation_counters_save(conversation)
    entries_catch_up(conversation_id=conversation.pk)
    questions = tuple(
        (question["question"], tuple(seqs[name] for name in question["evidence"]))
        for question in raw["questions"]
        if question["category"] in CATEGORIES
        and question["evidence"]
        and all(name in seqs for name in question["evidence"])
    )
    return Dialogue(conversation.pk, tuple(rows), questions)


def _by_budget(
    name: str,
    dialogues: Sequence[Dialogue],
    window: Sequence[float],
    floors: Sequence[float] | None,
    *,
    share: bool = False,
    **options: float,
) -> list[Figure]:
    figures: list[Figure] = []
    spent: list[int] = []
    for place, budget in enumerate(BUDGETS):
        limit = int(budget * SHARE) if share else min(DEFAULT_TOKENS, int(budget * SHARE))
        value = _share_of(dialogues, budget, _recaller(options, spent), limit=limit)
        floor = floors[place] if floors else None
        figures.append(
            Figure(f"{name}, {budget // 1000}k", value, "%", floor, most=False, baseline=window[place])
        )
    figures.append(Figure(f"tokens recalled a question ({name})", statistics.mean(spent), "tokens"))
    return figures


def _recaller(options: dict[str, float], spent: list[int]) -> Callable[[Dialogue, str, int, int], Any]:
    from agentx.llm.tokens import default_counter
    from conversations.context.recall import RecallOptions
    from conversations.selectors.search import search_passages

    def recall(dialogue: Dialogue, question: str, before_seq: int, limit: int) -> Any:
        passages = search_passages(
            conversation_id=dialogue.conversation,
            query=question,
            before_seq=before_seq,
            max_tokens=limit,
            counter=default_counter(),
            options=RecallOptions(**options),
        )
        spent.append(sum(passage.tokens for passage in passages))
        assert spent[-1] <= limit
        return passages

    return recall


def _share_of(
    dialogues: Sequence[Dialogue],
    budget: int,
    recall: Callable[[Dialogue, str, int, int], Any],
    *,
    limit: int = 0,
) -> float:
    """Per cent of the questions with all evidence in view."""
    good = total = 0
    for dialogue in dialogues:
        first = _first_in_window(dialogue, budget - limit)
        texts = {row[0]: row[3] for row in dialogue.rows}
        for question, evidence in dialogue.questions:
            passages = recall(dialogue, question, first, limit)
            shown = _shown(passages, texts) if not all(seq >= first for seq in evidence) else set()
            good += all(seq >= first or seq in shown for seq in evidence)
            total += 1
    return 100 * good / total


def _first_in_window(dialogue: Dialogue, room: int) -> int:
    """The seq with which the newest whole turns begin that fit into ``room`` tokens."""
    turns: dict[int, list[tuple[int, int]]] = {}
    for seq, turn, tokens, _ in dialogue.rows:
        turns.setdefault(turn, []).append((seq, tokens))
    first = dialogue.rows[-1][0] + 1
    for turn in sorted(turns, reverse=True):
        room -= sum(tokens for _, tokens in turns[turn])
        if room < 0:
            break
        first = turns[turn][0][0]
    return first


_LABEL = re.compile(r"^\[turn \d+, \w+\] ", re.MULTILINE)


def _shown(passages: Any, texts: dict[int, str]) -> set[int]:
    """The seqs of which the passages hold enough."""
    found: set[int] = set()
    for passage in passages:
        pieces = _LABEL.split(passage.text)[1:]
        for seq, piece in zip(passage.seqs, pieces, strict=True):
            if len(piece.replace("…", "").strip()) >= ENOUGH_OF_A_MESSAGE * len(texts[seq]):
                found.add(seq)
    return found


def _tool(dialogues: Sequence[Dialogue]) -> list[Figure]:
    """All evidence in the first tokens that the search tool returns; twenty results are the most it gives."""
    from agentx.llm.tokens import default_counter
    from conversations.selectors.search import search_conversation

    counter = default_counter()
    limits = (1_000, 2_000)
    good, total = [0, 0], 0
    for dialogue in dialogues:
        for question, evidence in dialogue.questions:
            result = search_conversation(
                conversation_id=dialogue.conversation, query=question, max_results=20, counter=counter
            )
            needed = 0
            missing = set(evidence)
            for hit in result.hits:
                if not missing:
                    break
                needed += counter.count_text("\n".join((hit.before, hit.excerpt, hit.after))) + 12
                missing -= {hit.seq}
                missing -= {hit.seq - 1} if hit.before else set()
                missing -= {hit.seq + 1} if hit.after else set()
            total += 1
            for place, limit in enumerate(limits):
                good[place] += not missing and needed <= limit
    return [
        Figure(
            f"all evidence in the first {limit:,} tokens of the search tool",
            100 * good[place] / total,
            "%",
            TOOL_FLOORS[place],
            most=False,
        )
        for place, limit in enumerate(limits)
    ]


def _need_nothing(dialogues: Sequence[Dialogue]) -> Figure:
    spent: list[int] = []
    recall = _recaller({}, spent)
    for dialogue in dialogues:
        for text in NEED_NOTHING:
            recall(dialogue, text, dialogue.rows[-1][0], DEFAULT_TOKENS)
    return Figure("tokens recalled for messages that need nothing", sum(spent), "tokens", 0)


# Search time


def _search_time() -> list[Figure]:
    from agentx.llm.tokens import default_counter
    from conversations.selectors.search import search_conversation, search_passages

    words = _vocabulary()
    conversations = _fill(words)
    counter = default_counter()
    numbers = random.Random(7)
    # Real questions are freed of function words; here the commonest words stand for them.
    rarer = words[FUNCTION_WORDS:]
    questions = [" ".join(_zipf(rarer, numbers, numbers.randint(2, 10))) + "?" for _ in range(QUERIES)]
    took: dict[str, list[float]] = {}
    for size, conversation in conversations.items():
        for question in questions[:20] + questions:  # the first ones only warm up
            began = time.perf_counter()
            search_passages(
                conversation_id=conversation,
                query=question,
                before_seq=size,
                max_tokens=DEFAULT_TOKENS,
                counter=counter,
            )
            took.setdefault(f"recall {size}", []).append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            search_conversation(conversation_id=conversation, query=question, counter=counter)
            took.setdefault(f"tool {size}", []).append((time.perf_counter() - began) * 1000)
    took = {name: times[20:] for name, times in took.items()}
    rows = f"{ROWS:,} entries in the table"
    ratio = statistics.median(took[f"recall {LONG}"]) / statistics.median(took[f"recall {SHORT}"])
    return [
        *(
            Figure(f"{kind} in {size:,} messages, {rows}, p50", percentile(times, 0.5), "ms")
            for kind, size, times in _split(took)
        ),
        *(
            Figure(f"{kind} in {size:,} messages, {rows}, p95", percentile(times, 0.95), "ms", 40)
            for kind, size, times in _split(took)
        ),
        Figure(f"recall's time, {LONG:,} : {SHORT:,} messages", ratio, "times", 1.5),
    ]


def _split(took: dict[str, list[float]]) -> list[tuple[str, int, list[float]]]:
    return [(name.split()[0], int(name.split()[1]), times) for name, times in took.items()]


def _vocabulary() -> list[str]:
    numbers = random.Random(3)
    syllables = [
        first + last for first in "bcdfghklmnprstvz" for last in ("a", "e", "i", "o", "u", "an", "or")
    ]
    made: dict[str, None] = {}
    while len(made) < 30_000:
        made["".join(numbers.choices(syllables, k=numbers.randint(2, 4)))] = None
    return list(made)


def _zipf(words: Sequence[str], numbers: random.Random, count: int) -> list[str]:
    """Words whose rank is log-uniform, which is Zipf's law with exponent 1."""
    return [words[int(len(words) ** numbers.random()) - 1] for _ in range(count)]


def _fill(words: Sequence[str]) -> dict[int, UUID]:
    """600,000 entries: some thousand messages indexed by the product, and copies of them under other conversations."""
    from django.contrib.auth import get_user_model
    from django.db import connection

    from conversations.models import Conversation
    from conversations.services.index import entries_catch_up

    numbers = random.Random(5)
    owner, _ = get_user_model().objects.get_or_create(username="bench")
    base = Conversation.objects.create(owner=owner).pk
    texts = [" ".join(_zipf(words, numbers, numbers.randint(4, 60))) + "." for _ in range(BASE)]
    copies = {LONG: uuid4(), SHORT: uuid4()}
    sizes = [(copies[LONG], LONG), (copies[SHORT], SHORT)]
    sizes += [(uuid4(), 5_000) for _ in range((ROWS - LONG - SHORT - BASE) // 5_000)]
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        # Otherwise it works beside the measurement, and holds the database when that is dropped.
        for table in ("conversations_message", "conversations_messageentry"):
            cursor.execute(
                f"ALTER TABLE {table} SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)"
            )
        cursor.execute(_MESSAGES, [base, texts])
        entries_catch_up(conversation_id=base)
        cursor.execute("SELECT pg_get_indexdef('message_entry_keys'::regclass)")
        definition = cursor.fetchall()[0][0]
        cursor.execute(
            "DROP INDEX message_entry_keys"
        )  # as any bulk load: built once instead of a million times
        for conversation, size in sizes:
            Conversation.objects.create(pk=conversation, owner=owner)
            cursor.execute(_COPY, [BASE, conversation, size, base, base])
        cursor.execute("SET maintenance_work_mem = '512MB'")
        cursor.execute(definition)
        cursor.execute("ANALYZE conversations_messageentry")
    return copies


_MESSAGES = """
INSERT INTO conversations_message (conversation_id, seq, turn, role, content, parts, tool_calls, tool_call_id, status,
    token_count, tokenizer, cumulative_tokens, chain_hash, metadata, created_at)
SELECT %s::uuid, n, (n + 1) / 2, CASE WHEN n %% 2 = 1 THEN 'user' ELSE 'assistant' END, text, '[]', '[]', '',
    'complete', 44, 'bench', n * 44, '', '{}', now()
FROM unnest(%s::text[]) WITH ORDINALITY AS given(text, n)
"""
_COPY = """
WITH wanted AS (
    SELECT n, 1 + (n * 7919) %% %s AS source, %s::uuid AS conversation FROM generate_series(1, %s) AS n
), copied AS (
    INSERT INTO conversations_message (conversation_id, seq, turn, role, content, parts, tool_calls, tool_call_id,
        status, token_count, tokenizer, cumulative_tokens, chain_hash, metadata, created_at)
    SELECT w.conversation, w.n, (w.n + 1) / 2, m.role, m.content, '[]', '[]', '', 'complete', 44, 'bench', w.n * 44,
        '', '{}', now()
    FROM wanted w JOIN conversations_message m ON m.conversation_id = %s AND m.seq = w.source
    RETURNING id, conversation_id, seq
)
INSERT INTO conversations_messageentry (message_id, conversation_id, seq, role, length, words, vector)
SELECT c.id, c.conversation_id, c.seq, e.role, e.length, e.words, e.vector
FROM copied c JOIN wanted w ON w.n = c.seq
JOIN conversations_message m ON m.conversation_id = %s AND m.seq = w.source
JOIN conversations_messageentry e ON e.message_id = m.id
"""
