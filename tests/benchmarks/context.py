"""What it costs to build the view of a conversation, from 100 messages to 100,000, beside libraries that trim or summarize.

Conversations are stored in a real PostgreSQL with honest counts, hashes, index, ledger and segments, and led through the
product's services until their window is full. One measured view is what a turn does before its call: read the snapshot
with its recall, look whether the epoch is over, assemble. The sizes take turns, so that a busy machine is unfair to none.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.material.database import product_database

if TYPE_CHECKING:
    from conversations.context.types import Snapshot
    from tests.benchmarks.material.filled import Filled

WINDOW = 32_768
SIZES = (100, 1_000, 2_000, 10_000, 100_000)
ROUNDS, WARM_ROUNDS = 60, 5
COMPARED = 10_000


def run() -> list[Figure]:
    """Measure; about four minutes, most of them for filling the database."""
    with product_database(CONTEXT_WINDOW_TOKENS=WINDOW, PROMPT_BUDGET_TOKENS=0):
        filled = _fill()
        figures, medians = _views(filled)
        compared = filled[COMPARED]
        warm, pure = _pure(_snapshot(compared, -1))
        return [
            *figures,
            *pure,
            *_trimming(filled, warm_ms=warm, view_ms=medians[COMPARED]),
            *_summarizing(filled, medians),
        ]


def _fill() -> dict[int, Filled]:
    from django.contrib.auth import get_user_model

    from tests.benchmarks.material.filled import conversations_fill, pool_store

    owner = get_user_model().objects.create(username="bench").pk
    made = conversations_fill(pool=pool_store(owner_id=owner), owner_id=owner, sizes=SIZES, window=WINDOW)
    return {item.size: item for item in made}


def _snapshot(filled: Filled, place: int) -> Snapshot:
    """Read and settled, as the assembler gets it. The epoch must stay: what is measured is an ordinary turn."""
    from conversations.selectors.snapshot import snapshot_load
    from conversations.services.prepare import epoch_settle

    snapshot = snapshot_load(run_id=filled.runs[place % len(filled.runs)])
    settled = epoch_settle(conversation_id=filled.conversation, snapshot=snapshot)
    assert settled is snapshot, "the epoch was to stay"
    return settled


def _views(filled: dict[int, Filled]) -> tuple[list[Figure], dict[int, float]]:
    """Views of every size in turn, each time for another question."""
    from agentx.llm.tokens import default_counter
    from conversations.context.assemble import assemble_view

    took: dict[int, list[float]] = {size: [] for size in SIZES}
    used: dict[int, list[int]] = {size: [] for size in SIZES}
    recalled: dict[int, list[int]] = {size: [] for size in SIZES}
    for place in range(WARM_ROUNDS + ROUNDS):
        for size in SIZES:
            began = time.perf_counter()
            view = assemble_view(snapshot=_snapshot(filled[size], place), counter=default_counter())
            if place >= WARM_ROUNDS:
                took[size].append((time.perf_counter() - began) * 1_000)
                used[size].append(view.allocation.used)
                recalled[size].append(sum(passage.tokens for passage in view.recalled))
    for size in SIZES:
        print(
            f"{size:,} messages: {statistics.median(used[size]):,.0f} tokens a view, of which recalled "
            f"{statistics.median(recalled[size]):,.0f}; {filled[size].cuts} cuts"
        )
    medians = {size: statistics.median(took[size]) for size in SIZES}
    figures = [
        Figure(f"view of {size:,} messages, queries and recall included, median", medians[size], "ms")
        for size in SIZES
    ]
    figures += [
        Figure(
            f"view of {size:,} messages, queries and recall included, p95",
            percentile(took[size], 0.95),
            "ms",
            25 if size == 2_000 else None,
        )
        for size in SIZES
    ]
    ratio = medians[100_000] / medians[1_000]
    return [*figures, Figure("a view's time, 100,000 : 1,000 messages", ratio, "times", 1.5)], medians


def _pure(snapshot: Snapshot) -> tuple[float, list[Figure]]:
    """Assembling alone: with counts remembered, and with a counter that has never seen any of the texts."""
    from agentx.llm.tokens import default_counter
    from conversations.context.assemble import assemble_view

    warm = _median(lambda: assemble_view(snapshot=snapshot, counter=default_counter()), times=200)
    cold: list[float] = []
    for _ in range(20):
        default_counter.cache_clear()
        counter = default_counter()
        cold.append(_milliseconds(lambda counter=counter: assemble_view(snapshot=snapshot, counter=counter)))
    return warm, [
        Figure(f"assembling alone, {WINDOW // 1024}k window, median", warm, "ms", 5),
        Figure("the same with texts never counted before", statistics.median(cold), "ms"),
    ]


def _trimming(filled: dict[int, Filled], *, warm_ms: float, view_ms: float) -> list[Figure]:
    """``trim_messages``: on messages that stand built in memory, against assembling alone; and with reading and
    building them, against a whole view. Both sides get the same budget."""
    from agentx.llm.tokens import TokenCounter, default_counter
    from tests.benchmarks.material.langchain_baselines import messages_load, trim

    snapshot = _snapshot(filled[COMPARED], -1)
    budget = _budget(snapshot)
    source = {
        size: {
            "conversation": filled[size].conversation,
            "through_seq": _snapshot(filled[size], -1).question.seq,
            "system_prompt": snapshot.system_prompt,
        }
        for size in SIZES
    }
    messages = messages_load(**source[COMPARED])

    class Forgetful(TokenCounter):
        """The same tokenizer without the memory of what was counted."""

        def count_text(self, text: str) -> int:
            return self._count(text)

    forgetful = Forgetful(default_counter()._tokenizer)
    plain = _median(lambda: trim(messages, budget=budget, counter=forgetful), times=3)
    trim(messages, budget=budget, counter=default_counter())
    memo = _median(lambda: trim(messages, budget=budget, counter=default_counter()), times=5)

    def load_and_trim(size: int) -> Any:
        return trim(messages_load(**source[size]), budget=budget, counter=None)

    loading = {size: _median(lambda size=size: load_and_trim(size), times=5) for size in (1_000, COMPARED)}
    loading[100_000] = _median(lambda: load_and_trim(100_000), times=3)
    growth = loading[100_000] / loading[1_000]
    name = f"{COMPARED:,} messages"
    return [
        Figure(
            f"trim_messages ÷ assembling alone, same tokenizer, {name}",
            plain / warm_ms,
            "times",
            100,
            most=False,
        ),
        Figure("the same with every count remembered", memo / warm_ms, "times"),
        Figure(f"trim_messages, same tokenizer, {name}", plain, "ms", baseline=None),
        Figure(
            f"reading, building, trimming with approximate counts ÷ a whole view, {name}",
            loading[COMPARED] / view_ms,
            "times",
            8,
            most=False,
        ),
        Figure(f"reading, building, trimming with approximate counts, {name}", loading[COMPARED], "ms"),
        Figure("its time, 100,000 : 1,000 messages", growth, "times"),
    ]


def _summarizing(filled: dict[int, Filled], medians: dict[int, float]) -> list[Figure]:
    """One pass of the middlewares over messages in memory; the summarizer answers at once. Beside: a whole view of ours."""
    from tests.benchmarks.material.langchain_baselines import (
        deepagents_summarizer,
        langchain_summarizer,
        messages_load,
    )

    budget = _budget(_snapshot(filled[COMPARED], -1))
    figures: list[Figure] = []
    for size in (1_000, COMPARED):
        last = _snapshot(filled[size], -1)
        messages = messages_load(
            conversation=filled[size].conversation,
            through_seq=last.question.seq,
            system_prompt=last.system_prompt,
        )
        with tempfile.TemporaryDirectory() as folder:
            calls = {
                "langchain": langchain_summarizer(budget=budget),
                "deepagents": deepagents_summarizer(budget=budget, folder=Path(folder)),
            }
            for library, call in calls.items():
                if call is None:
                    print(f"{library} is not installed: left out")
                    continue
                took = _median(lambda call=call, messages=messages: call(messages), times=5)
                name = f"a view of {size:,} messages beside {library}'s summarization middleware (baseline)"
                figures.append(Figure(name, medians[size], "ms", baseline=took))
    return figures


def _budget(snapshot: Snapshot) -> int:
    from conversations.context.budget import derive_budget

    return derive_budget(window=snapshot.model.window, rules=snapshot.rules).tokens


def _median(work: Callable[[], Any], *, times: int) -> float:
    return statistics.median(_milliseconds(work) for _ in range(times))


def _milliseconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1_000
