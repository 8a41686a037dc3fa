"""The event log of each run in Redis: keys, the fenced append, and the writer that batches for a whole process.

A run's log is one Redis stream whose entry ids are ``<seq>-0``. The append script checks the lease token and demands
seq = last + 1, so that a retried append is a no-op, a gap is impossible, and an owner that lost its lease is refused.
Nothing durable lives only here: when Redis is down, turns go on and the log resumes after the newest checkpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import redis.asyncio
import redis.exceptions
import structlog
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from agentx.errors import LeaseLost
from conversations.events import Delta, EventData, Thinking, encode_event, encode_text

log = structlog.get_logger(__name__)

# Above BLOCK of every reader (5 s), or idle readers would be cut off by their own socket timeout.
SOCKET_TIMEOUT = 15.0
# Events kept while Redis is away; beyond this the log is given up until it is back.
BUFFERED_EVENTS = 256
# A log of an unfinished run expires a day after its last event.
UNFINISHED_TTL = 86_400

NOTICES = "agentx:notices"
NOTICES_KEPT = 2_000

FENCED, GAP = -1, -2

# How long text is gathered for each answer that is being written, and at most. 40 answers make it 60 ms, which nobody
# sees in text that comes a word at a time; measured with 64 answers, it saves about 110 µs of CPU a word beside a fixed 25 ms.
TICK_PER_LOG, LONGEST_TICK = 0.0015, 0.1

APPEND_SCRIPT = """
local held = redis.call('HGET', KEYS[2], 'token')
if held and held ~= ARGV[1] then return {-1, 0} end
local last = tonumber(redis.call('HGET', KEYS[2], 'seq') or '0')
local first = tonumber(ARGV[2])
if first > last + 1 then
  if ARGV[3] ~= '1' then return {-2, last} end
  last = first - 1
end
local n = #ARGV - 4
for i = 1, n do
  local seq = first + i - 1
  if seq > last then redis.call('XADD', KEYS[1], seq .. '-0', 'e', ARGV[4 + i]); last = seq end
end
redis.call('HSET', KEYS[2], 'token', ARGV[1], 'seq', last)
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('EXPIRE', KEYS[2], ARGV[4])
return {0, last}
"""


def log_key(run_id: UUID | str) -> str:
    """The stream of a run's events. The braces keep both keys of a run on one node of a cluster."""
    return f"agentx:run:{{{run_id}}}:log"


def head_key(run_id: UUID | str) -> str:
    """The hash with the lease token that may append, and the seq of the last event."""
    return f"agentx:run:{{{run_id}}}:head"


def redis_connect(url: str) -> redis.asyncio.Redis:
    """An asyncio client that fails at once: retrying is done by callers, who know whether it is safe."""
    # Callers beyond the limit wait for a connection: to be refused one would look as if Redis were down.
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        url,
        socket_timeout=SOCKET_TIMEOUT,
        socket_connect_timeout=2,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
        max_connections=50,
        timeout=SOCKET_TIMEOUT,
    )
    return redis.asyncio.Redis.from_pool(pool)


@dataclass(slots=True)
class _Text:
    """Pieces of one kind of text that wait together and become one event."""

    kind: type[Delta] | type[Thinking]
    pieces: list[str]


class RunLog:
    """One run's side of the writer. ``emit`` never waits; deltas that wait together become one event."""

    def __init__(self, *, writer: LogWriter, run_id: UUID, token: UUID, ttl: int = UNFINISHED_TTL):
        self.run_id = str(run_id)
        self.token = str(token)
        self.ttl = ttl
        self.last_seq = 0
        self.fenced = False
        self.lost = False
        self.covered = True  # a checkpoint reaches up to where a lost log will go on
        self.on_loss: Callable[[], Awaitable[None]] | None = None
        self._writer = writer
        self._pending: list[EventData | _Text] = []
        self._unsent: list[bytes] = []
        self._last_kind: type[EventData] | None = None
        self._first_unsent = 1
        self._settled = asyncio.Event()
        self._settled.set()

    def emit(self, event: EventData) -> None:
        """Queue an event. Raises ``LeaseLost`` once another process has taken over the run."""
        if isinstance(event, Delta | Thinking):
            self.emit_text(type(event), event.text)
            return
        if self.fenced:
            raise LeaseLost
        self._pending.append(event)
        self._settled.clear()
        self._last_kind = type(event)
        self._writer.mark(self, urgent=True)

    def emit_text(self, kind: type[Delta] | type[Thinking], text: str) -> None:
        """Queue a piece of text, which joins what waits before it. Raises ``LeaseLost`` as ``emit``."""
        if self.fenced:
            raise LeaseLost
        last = self._pending[-1] if self._pending else None
        if type(last) is _Text and last.kind is kind:
            last.pieces.append(text)
            return  # its log is marked already
        self._pending.append(_Text(kind, [text]))
        self._settled.clear()
        # Text that goes on may be gathered; whatever is new to the listener is worth a write of its own.
        goes_on = kind is self._last_kind
        self._last_kind = kind
        self._writer.mark(self, urgent=not goes_on)

    def assign(self) -> int:
        """Give every queued event its seq, and return the last one."""
        for event in self._pending:
            self.last_seq += 1
            if type(event) is _Text:
                text = "".join(event.pieces)
                self._unsent.append(
                    encode_text(run_id=self.run_id, seq=self.last_seq, kind=event.kind, text=text)
                )
            else:
                self._unsent.append(
                    encode_event(run_id=self.run_id, seq=self.last_seq, data=cast("EventData", event))
                )
        self._pending.clear()
        return self.last_seq

    async def flushed(self, *, timeout: float) -> bool:
        """Wait until everything emitted is in Redis; False when that did not happen in ``timeout`` seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), timeout)
        return self._settled.is_set() and not self.lost

    # -- used by the writer ------------------------------------------------------------------------------------------

    def batch(self) -> list[Any] | None:
        """Arguments of the append script for everything unsent, or None when there is nothing."""
        self.assign()
        if len(self._unsent) > BUFFERED_EVENTS and self._writer.down_since is not None:
            self._drop_unsent()
        if not self._unsent:
            self._settled.set()
            return None
        restart = b"1" if self.lost else b"0"
        head = [
            log_key(self.run_id),
            head_key(self.run_id),
            self.token,
            self._first_unsent,
            restart,
            self.ttl,
        ]
        return [*head, *self._unsent]

    def sent(self, code: int, count: int) -> None:
        """Take the script's answer for a batch of ``count`` events."""
        if code == FENCED:
            self.fenced = True
            self._unsent.clear()
            self._settled.set()
            return
        if code == GAP:
            self.lost, self.covered = True, False
            return
        self.lost = False
        del self._unsent[:count]
        self._first_unsent += count
        if not self._unsent and not self._pending:
            self._settled.set()

    async def cover_loss(self) -> None:
        """The stream is gone: save what was said, so that a reader of the new one has a place to start from."""
        log.warning("event_log_lost", run_id=self.run_id, seq=self.assign())
        self.covered = True
        if self.on_loss is not None:
            await self.on_loss()

    def _drop_unsent(self) -> None:
        self.lost, self.covered = True, False
        self._unsent.clear()
        self._first_unsent = self.last_seq + 1


class LogWriter:
    """Appends the events of every run of this process: text is gathered for a tick, anything else goes at once.

    The tick grows with the number of answers that are being written: what they gather meanwhile becomes one event each, which
    every process behind this one handles once.
    """

    def __init__(self, *, url: str, flush_seconds: float) -> None:
        self._redis = redis_connect(url)
        self._flush_seconds = flush_seconds
        self._dirty: dict[str, RunLog] = {}
        self._urgent_ones: dict[str, RunLog] = {}
        self._wake = asyncio.Event()
        self._urgent = asyncio.Event()
        self._sha: str | None = None
        self.down_since: float | None = None
        self._task = asyncio.create_task(self._run(), name="log-writer")

    def open(self, *, run_id: UUID, token: UUID) -> RunLog:
        """The log of a run that this process owns."""
        return RunLog(writer=self, run_id=run_id, token=token)

    def mark(self, run_log: RunLog, *, urgent: bool = False) -> None:
        """Note that a log has something to send; ``urgent`` does not wait for the tick."""
        if urgent:
            self._urgent_ones[run_log.run_id] = run_log
            self._urgent.set()
        else:
            self._dirty[run_log.run_id] = run_log
        self._wake.set()

    async def aclose(self) -> None:
        """Stop the writer. Callers wait for ``flushed`` of their logs first."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._redis.aclose()

    async def _run(self) -> None:
        tick_ends = 0.0
        while True:
            await self._wake.wait()
            now = time.monotonic()
            dirty = self._take(all_of_them=now >= tick_ends)
            if now >= tick_ends:
                tick_ends = now + self._tick(len(dirty))
            try:
                await self._flush(dirty)
            except (
                Exception
            ):  # one writer serves every turn of the process: it must outlive what one of them does
                log.exception("event_log_flush_failed")
                for run_log in dirty.values():
                    self.mark(run_log)
            if self.down_since is not None:
                await asyncio.sleep(0.5)  # while Redis is away, more attempts would be of no use
            elif (rest := tick_ends - time.monotonic()) > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._urgent.wait(), rest)

    def _take(self, *, all_of_them: bool) -> dict[str, RunLog]:
        """The logs to send now: within a tick, those alone that have something new."""
        taken, self._urgent_ones = self._urgent_ones, {}
        self._urgent.clear()
        if all_of_them:
            taken, self._dirty = {**self._dirty, **taken}, {}
        else:
            for run_id in taken:
                self._dirty.pop(run_id, None)
        if not self._dirty:
            self._wake.clear()
        return taken

    def _tick(self, logs: int) -> float:
        return min(max(self._flush_seconds, logs * TICK_PER_LOG), max(self._flush_seconds, LONGEST_TICK))

    async def _flush(self, dirty: dict[str, RunLog]) -> None:
        # One at a time would make the logs of other runs wait for each other's database.
        if uncovered := [
            run_log.cover_loss()
            for run_log in dirty.values()
            if self.down_since is None and not run_log.covered
        ]:
            await asyncio.gather(*uncovered, return_exceptions=True)
        batches = [(run_log, batch) for run_log in dirty.values() if (batch := run_log.batch())]
        if not batches:
            return
        try:
            results = await self._append([batch for _, batch in batches])
            _raise_if_full(results)
        except (redis.exceptions.RedisError, OSError, TimeoutError) as error:
            if self.down_since is None:
                self.down_since = time.monotonic()
                log.warning("event_log_unavailable", error=type(error).__name__)
            for run_log, _ in batches:
                self.mark(run_log)
            return
        if self.down_since is not None:
            log.info("event_log_back", seconds=round(time.monotonic() - self.down_since, 1))
            self.down_since = None
        for (run_log, batch), result in zip(batches, results, strict=True):
            if isinstance(result, Exception):
                log.error("event_append_failed", run_id=run_log.run_id, error=str(result))
                self.mark(run_log)
                continue
            run_log.sent(int(result[0]), len(batch) - 6)
            if run_log.lost:
                self.mark(run_log)

    async def _append(self, batches: list[list[Any]]) -> list[Any]:
        if self._sha is None:
            self._sha = await self._redis.script_load(APPEND_SCRIPT)
        results = await self._evaluate(batches)
        if any(isinstance(result, redis.exceptions.NoScriptError) for result in results):
            self._sha = await self._redis.script_load(APPEND_SCRIPT)
            results = await self._evaluate(batches)
        return results

    async def _evaluate(self, batches: list[list[Any]]) -> list[Any]:
        pipe = self._redis.pipeline(transaction=False)
        for batch in batches:
            pipe.evalsha(self._sha or "", 2, *batch)
        return await pipe.execute(raise_on_error=False)


def _raise_if_full(results: list[Any]) -> None:
    """A Redis that takes no more is as good as none. Raises ``OutOfMemoryError``; nothing of that batch was appended."""
    for result in results:
        if isinstance(result, redis.exceptions.OutOfMemoryError):
            raise result
