"""What the product adds between a model's byte and a client's byte, beside a bare relay and a client that asks the model itself.

Everything runs on this machine, each in a process of its own: scripted model, relay, web process, runner, worker with beat,
PostgreSQL, Valkey, and the measuring client. The model stamps each token with the monotonic clock; the client reads how
late it arrives. Figures are medians of five runs; percentiles are over all tokens or streams of three. The relay's CPU is of
one run, being linear.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import psycopg
import websockets

from tests.benchmarks.figures import Figure, bench_texts, percentile
from tests.benchmarks.load import Opened, Stream, model_text, product_text, read_streams
from tests.stack import ROOT, Client, Stack, running_stack, wait_for

# The defaults of the product, where the stack of the tests has shorter times.
SHIPPED = {
    "RUN_HEARTBEAT_SECONDS": "10",
    "RUN_LEASE_SECONDS": "45",
    "RUN_CHECKPOINT_SECONDS": "1",
    "MODEL_STALL_SECONDS": "30",
    "DATABASE_POOL_SIZE": "8",
}
# Streams at once, tokens a second of each, tokens of each, the worst p99 in milliseconds.
LOADS = ((40, 40, 400, 150), (80, 40, 400, 250), (128, 30, 300, 250))
RUNS, RUNS_OF_PERCENTILES = 5, 3
CPU_LOAD = (64, 30, 600)
CLIENT = "the measuring client"
IDLE_CLIENTS = 200
REPLAYED = 2000
LONG_CONVERSATION = 2000
# An answer that lets its listeners wait longer than it takes to attach them all.
SILENCE = "[[scripted-n3-ttft15000]]"


@dataclass(frozen=True)
class Bench:
    """What is running. ``relay`` and ``model``: addresses; ``…_pid``: of the process behind each."""

    stack: Stack
    client: Client
    model: str
    relay: str
    model_pid: int
    relay_pid: int
    headers: dict[str, str]


def run() -> list[Figure]:
    """Measure; about seven minutes."""
    with tempfile.TemporaryDirectory() as folder, _bench(Path(folder)) as bench:
        asyncio.run(_through_product(bench, streams=8, tokens=20, rate=40))
        asyncio.run(_through(bench.relay, streams=8, tokens=20, rate=40))
        return [
            *_first_token(bench),
            *(figure for load in LOADS for figure in _lateness(bench, *load)),
            *_cpu_a_token(bench),
            *_replay(bench),
            *_long_conversation(bench),
            *_memory(bench.stack),
            *_idle_clients(bench),  # last, since it starts the web process anew
        ]


@contextlib.contextmanager
def _bench(folder: Path) -> Iterator[Bench]:
    from agentx.embedded.service import find_free_port

    model_port, relay_port = find_free_port(), find_free_port()
    model = f"http://127.0.0.1:{model_port}/v1"
    commands = (
        ("tests.scripted_model", "--port", str(model_port)),
        ("tests.benchmarks.relay", str(relay_port), "127.0.0.1", str(model_port)),
    )
    children = [
        subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.DEVNULL)
        for command in commands
    ]
    try:
        wait_for(lambda: _listens(model_port) and _listens(relay_port), what="model and relay")
        processes = ("web", "runner", "worker")
        with running_stack(folder, processes=processes, LLM_BASE_URL=model, **SHIPPED) as stack:
            client = stack.client()
            yield Bench(
                stack=stack,
                client=client,
                model=f"{model}/chat/completions",
                relay=f"http://127.0.0.1:{relay_port}/v1/chat/completions",
                model_pid=children[0].pid,
                relay_pid=children[1].pid,
                headers=client.headers,
            )
    finally:
        for child in children:
            child.terminate()
            child.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


async def _through(url: str, *, streams: int, tokens: int, rate: int) -> list[Stream]:
    """The model's answers by way of ``url``, which speaks its language."""
    body = {
        "model": f"scripted-stamp-n{tokens}-tps{rate}",
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
    }
    asked = Opened(url=url, body=body, headers={}, text=model_text, tokens=tokens)
    return _sound(await read_streams([asked] * streams), tokens)


async def _through_product(bench: Bench, *, streams: int, tokens: int, rate: int) -> list[Stream]:
    """The same answers as turns of as many conversations, which are there already."""
    conversations = await asyncio.to_thread(lambda: [bench.client.conversation() for _ in range(streams)])
    asked = [
        Opened(
            url=f"{bench.stack.url}/api/conversations/{conversation}/turns?stream=true",
            body={"content": f"[[scripted-stamp-n{tokens}-tps{rate}]]"},
            headers=bench.headers,
            text=product_text,
            tokens=tokens,
        )
        for conversation in conversations
    ]
    return _sound(await read_streams(asked), tokens)


def _sound(streams: list[Stream], tokens: int) -> list[Stream]:
    """The streams; a failed one or a token that is missing is a fault of the figure, and counted as such."""
    for stream in streams:
        if stream.error:
            print(f"a stream failed: {stream.error}", file=sys.stderr)
        elif len(stream.late) != tokens:
            print(f"a stream had {len(stream.late)} of {tokens} tokens", file=sys.stderr)
    return streams


def _faults(streams: Sequence[Stream], tokens: int) -> int:
    return sum(stream.faults + abs(tokens - len(stream.late)) for stream in streams)


def _firsts(streams: Sequence[Stream]) -> list[float]:
    return [1000 * (stream.first if stream.first is not None else 60.0) for stream in streams]


def _first_token(bench: Bench) -> list[Figure]:
    one, many = {"streams": 1, "tokens": 3, "rate": 0}, {"streams": 40, "tokens": 40, "rate": 40}
    mine = [_firsts(asyncio.run(_through_product(bench, **one)))[0] for _ in range(RUNS)]
    bare = [_firsts(asyncio.run(_through(bench.relay, **one)))[0] for _ in range(RUNS)]
    runs = range(RUNS_OF_PERCENTILES)
    product = [first for _ in runs for first in _firsts(asyncio.run(_through_product(bench, **many)))]
    relay = [first for _ in runs for first in _firsts(asyncio.run(_through(bench.relay, **many)))]
    alone = statistics.median(mine) - statistics.median(bare)
    crowd = percentile(product, 0.95) - percentile(relay, 0.95)
    return [
        Figure("added time to first token, 1 stream", alone, "ms", 30, baseline=statistics.median(bare)),
        Figure("the same, 40 streams at once, p95", crowd, "ms", 150, baseline=percentile(relay, 0.95)),
    ]


def _lateness(bench: Bench, streams: int, rate: int, tokens: int, worst: float) -> list[Figure]:
    asked = {"streams": streams, "tokens": tokens, "rate": rate}
    runs = range(RUNS_OF_PERCENTILES)
    mine = [stream for _ in runs for stream in asyncio.run(_through_product(bench, **asked))]
    bare = [stream for _ in runs for stream in asyncio.run(_through(bench.relay, **asked))]
    name = f"{streams} × {rate} tokens/s"

    def late(read: Sequence[Stream], share: float) -> float:
        return 1000 * percentile([one for stream in read for one in stream.late] or [60.0], share)

    return [
        Figure(f"model byte to client byte, {name}, p50", late(mine, 0.5), "ms", baseline=late(bare, 0.5)),
        Figure(
            f"model byte to client byte, {name}, p99",
            late(mine, 0.99),
            "ms",
            worst,
            baseline=late(bare, 0.99),
        ),
        Figure(
            f"events lost, repeated or out of order, {name}",
            _faults(mine, tokens),
            "events",
            0,
            baseline=_faults(bare, tokens),
        ),
        Figure(
            f"streams that failed, {name}",
            sum(bool(stream.error) for stream in mine),
            "streams",
            0,
            baseline=sum(bool(stream.error) for stream in bare),
        ),
    ]


def _cpu_a_token(bench: Bench) -> list[Figure]:
    """What counts is web, runner and the worker with its beat; what else the machine did for a token is told beside it."""
    streams, rate, tokens = CPU_LOAD
    asked = {"streams": streams, "tokens": tokens, "rate": rate}
    served = {name: child.pid for name, child in bench.stack.children.items()}
    beside = {
        "PostgreSQL": _postgres_pid(bench.stack),
        "Valkey": bench.stack.valkey.pid or 0,
        "the scripted model": bench.model_pid,
    }
    total = streams * tokens / 1e6
    runs: list[dict[str, float]] = []
    for _ in range(RUNS):
        before, own = (
            {name: _cpu_seconds(pid) for name, pid in (served | beside).items()},
            time.process_time(),
        )
        asyncio.run(_through_product(bench, **asked))
        after = {name: _cpu_seconds(pid) for name, pid in (served | beside).items()}
        run = {name: (after[name] - before[name]) / total for name in before}
        # Everything else is below this process: what it did itself only it can tell.
        runs.append(run | {CLIENT: (time.process_time() - own) / total})
    relay_before = _cpu_seconds(bench.relay_pid)
    asyncio.run(_through(bench.relay, **asked))
    bare = (_cpu_seconds(bench.relay_pid) - relay_before) / total
    sums = statistics.median(sum(run[name] for name in served) for run in runs)
    return [
        Figure(
            f"CPU of web, runner, worker and beat a token, {streams} × {rate} tokens/s",
            sums,
            "µs",
            400,
            baseline=bare,
        ),
        *(
            Figure(f"{'of it' if name in served else 'beside it'} {name}", _median(runs, name), "µs")
            for name in (*served, *beside, CLIENT)
        ),
    ]


def _median(runs: Sequence[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _postgres_pid(stack: Stack) -> int:
    """The server's process: the parent of a session's, which all have one."""
    with psycopg.connect(stack.database_url) as connection:
        status = Path(f"/proc/{connection.info.backend_pid}/stat").read_text()
    return int(status.rsplit(")", 1)[1].split()[1])


def _replay(bench: Bench) -> list[Figure]:
    """Tokens a tick apart become an event each, so that the log really has as many."""
    client = bench.client
    run_id = client.accepted(client.conversation(), f"[[scripted-n{REPLAYED}-tps30]]")
    client.ended(run_id, seconds=180)
    took, count = [], 0
    for _ in range(RUNS):
        began = time.perf_counter()
        count = len(client.events(run_id))
        took.append((time.perf_counter() - began) * 1000)
    if count < REPLAYED:  # several tokens in one event: what was timed is not what is asked for
        print(f"only {count} events to replay", file=sys.stderr)
        took = [float("inf")]
    return [Figure(f"attach and replay of {count:,} events", statistics.median(took), "ms", 300)]


def _long_conversation(bench: Bench) -> list[Figure]:
    client, stack = bench.client, bench.stack
    conversation = client.conversation()
    texts = bench_texts() or ["word " * 40]
    stack.sql_run(_FILL, conversation, texts, len(texts), LONG_CONVERSATION)
    pages, accepts = [], []
    for _ in range(RUNS):
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


def _idle_clients(bench: Bench) -> list[Figure]:
    """Sockets that all follow an answer whose first word has not come, in a web process that has done nothing else."""
    bench.stack.kill("web")
    bench.stack.restart("web")

    async def attach() -> float:
        conversation = await asyncio.to_thread(bench.client.conversation)
        url = f"{bench.stack.url.replace('http', 'ws')}/ws/conversations/{conversation}/"
        async with contextlib.AsyncExitStack() as stack:
            opened = []
            for _ in range(IDLE_CLIENTS):
                socket = websockets.connect(
                    url,
                    additional_headers=bench.headers,
                    origin=bench.stack.url,  # type: ignore[arg-type]
                )
                opened.append(await stack.enter_async_context(socket))
                await opened[-1].send('{"type": "ping"}')
                await opened[-1].recv()  # by now it hears of new runs
            await asyncio.to_thread(bench.client.accepted, conversation, SILENCE)
            for one in opened:
                while orjson.loads(await one.recv())["type"] != "run_started":
                    pass
            return _resident_mb(bench.stack.children["web"].pid)

    memory = asyncio.run(attach())
    return [Figure(f"memory of web with {IDLE_CLIENTS} idle clients that follow a run", memory, "MB", 150)]


def _memory(stack: Stack) -> list[Figure]:
    total = sum(_with_below(_resident_mb, child.pid) for child in stack.children.values())
    return [Figure("memory of web, runner, worker and beat after the run", total, "MB", 500)]


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


def _below(pid: int) -> list[int]:
    """All processes below one. What a worker starts for a moment may end meanwhile, and counts for nothing."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [below for child in children for below in (child, *_below(child))]
    return []


def _with_below(measure: Callable[[int], float], pid: int) -> float:
    """``measure`` of a process, which has to be there, and of all below it that still are."""
    total = measure(pid)
    for below in _below(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += measure(below)
    return total


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process and of all below it, those that have ended included."""
    return _with_below(_own_cpu_seconds, pid)


def _own_cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    """Memory of a process with pages that are shared counted in part (PSS), so that forked workers are not counted twice."""
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found is not None, f"process {pid} has ended"
    return int(found[1]) / 1024
