"""What the product adds between a model's byte and a client's byte, beside a client that asks the model directly.

Everything runs on this machine: scripted model, web process, runner, PostgreSQL, Valkey and the measuring client. The
model stamps each token with the monotonic clock; a client on the same machine reads how late it arrives. Medians of five
runs, but for the percentiles, which are over all tokens of three.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import tempfile
import time
from pathlib import Path

import httpx

from tests.benchmarks.figures import Figure, bench_texts, percentile
from tests.stack import Client, Stack, running_stack

STREAMS, RATE, TOKENS = 25, 40, 120
REPLAYED = 2000
# The defaults of the product, where the stack of the tests has shorter times.
SHIPPED = {
    "RUN_HEARTBEAT_SECONDS": "10",
    "RUN_LEASE_SECONDS": "45",
    "RUN_CHECKPOINT_SECONDS": "1",
    "MODEL_STALL_SECONDS": "30",
    "DATABASE_POOL_SIZE": "8",
}
LONG_CONVERSATION = 5000


def run() -> list[Figure]:
    """Measure; about two minutes."""
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder), **SHIPPED) as stack:
        client = stack.client()
        return [
            *_first_token(stack, client),
            *_many_streams(stack, client),
            *_replay(stack, client),
            *_long_conversation(stack, client),
            *_idle_memory(stack),
        ]


def _first_token(stack: Stack, client: Client) -> list[Figure]:
    asyncio.run(_one_stream(stack, client))
    through = [asyncio.run(_one_stream(stack, client))[0] for _ in range(5)]
    direct = [asyncio.run(_direct(stack, tokens=3))[0] for _ in range(5)]
    added = (statistics.median(through) - statistics.median(direct)) * 1000
    return [
        Figure(
            "added time to first token, 1 stream", added, "ms", 30, baseline=statistics.median(direct) * 1000
        )
    ]


def _many_streams(stack: Stack, client: Client) -> list[Figure]:
    before = _cpu_seconds(stack)
    late: list[float] = []
    for _ in range(3):
        late += asyncio.run(_gather(STREAMS, lambda: _one_stream(stack, client, tokens=TOKENS, rate=RATE)))
    spent = _cpu_seconds(stack) - before
    relay: list[float] = []
    for _ in range(3):
        relay += asyncio.run(_gather(STREAMS, lambda: _direct(stack, tokens=TOKENS, rate=RATE)))
    tokens = STREAMS * TOKENS * 3
    name = f"{STREAMS} × {RATE} tokens/s"
    return [
        Figure(
            f"model byte to client byte, {name}, p50",
            percentile(late, 0.5) * 1000,
            "ms",
            baseline=percentile(relay, 0.5) * 1000,
        ),
        Figure(
            f"model byte to client byte, {name}, p99",
            percentile(late, 0.99) * 1000,
            "ms",
            150,
            baseline=percentile(relay, 0.99) * 1000,
        ),
        Figure(f"tokens lost, {name}", tokens - len(late), "tokens", 0, baseline=tokens - len(relay)),
        Figure(f"CPU of web and runner a token, {name}", spent / tokens * 1e6, "µs"),
    ]


def _replay(stack: Stack, client: Client) -> list[Figure]:
    run_id = client.accepted(client.conversation(), f"[[scripted-n{REPLAYED}-tps400]]")
    client.ended(run_id, seconds=120)
    took, count = [], 0
    for _ in range(5):
        began = time.perf_counter()
        count = len(client.events(run_id))
        took.append((time.perf_counter() - began) * 1000)
    return [Figure(f"attach and replay of {count:,} events", statistics.median(took), "ms", 300)]


def _long_conversation(stack: Stack, client: Client) -> list[Figure]:
    conversation = client.conversation()
    texts = bench_texts() or ["word " * 40]
    stack.sql_run(_FILL, conversation, texts, len(texts), LONG_CONVERSATION)
    pages, accepts = [], []
    for _ in range(5):
        began = time.perf_counter()
        client.messages(conversation)
        pages.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        run_id = client.accepted(conversation, "hello")
        accepts.append((time.perf_counter() - began) * 1000)
        client.ended(run_id)
    size = f"{LONG_CONVERSATION:,} messages"
    return [
        Figure(f"first page of a conversation of {size}", statistics.median(pages), "ms", 150),
        Figure("accepting a message in it", statistics.median(accepts), "ms", 200),
    ]


def _idle_memory(stack: Stack) -> list[Figure]:
    resident = sum(_resident_mb(stack, name) for name in ("web", "runner"))
    return [Figure("memory of web and runner after the run", resident, "MB", 500)]


_FILL = """
WITH filled AS (
    INSERT INTO conversations_message (conversation_id, seq, turn, role, content, parts, tool_calls, tool_call_id, status,
        token_count, tokenizer, cumulative_tokens, chain_hash, metadata, created_at)
    SELECT %s::uuid, n, (n + 1) / 2, CASE WHEN n %% 2 = 1 THEN 'user' ELSE 'assistant' END,
        (%s::text[])[1 + n %% %s], '[]', '[]', '', 'complete', 44, 'bench', n * 44, '', '{}', now()
    FROM generate_series(1, %s::int) AS n RETURNING conversation_id, seq
)
UPDATE conversations_conversation c SET next_seq = f.top + 1, next_turn = f.top / 2 + 1, total_tokens = f.top * 44
FROM (SELECT conversation_id, max(seq) AS top FROM filled GROUP BY 1) f WHERE c.id = f.conversation_id
"""


async def _gather(count: int, make) -> list[float]:
    """Lateness of every token of ``count`` streams at once."""
    results = await asyncio.gather(*(make() for _ in range(count)))
    return [late for _, lates in results for late in lates]


async def _one_stream(
    stack: Stack, client: Client, *, tokens: int = 3, rate: int = 0
) -> tuple[float, list[float]]:
    """A turn through the product: seconds to the first text, and how late each token was."""
    async with httpx.AsyncClient(base_url=stack.url, headers=client.headers, timeout=60) as http:
        made = await http.post("/api/conversations", json={})
        path = f"/api/conversations/{made.json()['id']}/turns"
        body = {"content": f"[[scripted-stamp-n{tokens}-tps{rate}]]"}
        return await _read(http.stream("POST", path, params={"stream": "true"}, json=body), _product_text)


async def _direct(stack: Stack, *, tokens: int, rate: int = 0) -> tuple[float, list[float]]:
    """The same question to the model server itself."""
    body = {
        "model": f"scripted-stamp-n{tokens}-tps{rate}",
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
    }
    async with httpx.AsyncClient(base_url=stack.model.base_url, timeout=60) as http:
        return await _read(http.stream("POST", "/chat/completions", json=body), _model_text)


async def _read(opening, text_of) -> tuple[float, list[float]]:
    began, first = time.monotonic(), 0.0
    late: list[float] = []
    rest = ""
    async with opening as answer:
        async for line in answer.aiter_lines():
            if not line.startswith("data:") or not (text := text_of(line.removeprefix("data:").strip())):
                continue
            now = time.monotonic()
            first = first or now - began
            rest += text
            *stamps, rest = rest.split(" ")
            late += [now - int(stamp) / 1e6 for stamp in stamps if stamp]
    return first, late


def _product_text(data: str) -> str:
    event = json.loads(data)
    return event["data"]["text"] if event["type"] == "delta" else ""


def _model_text(data: str) -> str:
    if data == "[DONE]":
        return ""
    choices = json.loads(data)["choices"]
    return choices[0]["delta"].get("content") or "" if choices else ""


def _cpu_seconds(stack: Stack) -> float:
    ticks = 0
    for child in stack.children.values():
        fields = Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _resident_mb(stack: Stack, name: str) -> float:
    status = Path(f"/proc/{stack.children[name].pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0
