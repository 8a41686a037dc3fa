"""The one reader of run logs in a process: it waits on all followed streams at once and feeds every listener.

An own blocking read for each listener would cost a connection each; here 200 idle listeners cost one.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import redis.exceptions
import structlog
from django.conf import settings

from agentx.errors import TooMany
from conversations.stream import NOTICES, head_key, log_key, redis_connect

log = structlog.get_logger(__name__)

BLOCK_MILLISECONDS = 5_000
EVENTS_PER_READ = 256


class Listener:
    """One listener's queue. Unread bytes are bounded: beyond the limit it is cut off and may attach again."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.overflowed = False
        self._items: list[tuple[int, bytes]] = []
        self._bytes = 0
        self._ready = asyncio.Event()

    def put(self, seq: int, payload: bytes) -> None:
        self._bytes += len(payload)
        if self._bytes > settings.SLOW_CLIENT_BYTES:
            self.overflowed = True
            self._items.clear()
        else:
            self._items.append((seq, payload))
        self._ready.set()

    def poke(self) -> None:
        """Wake the listener without an event, since the state of the log changed."""
        self._ready.set()

    async def take(self, *, timeout: float) -> list[tuple[int, bytes]]:
        """What has come; empty after ``timeout`` seconds or a poke. Raises ``TooMany`` when it was cut off."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ready.wait(), timeout)
        self._ready.clear()
        if self.overflowed:
            raise TooMany("You read more slowly than the answer comes; attach again to go on", retry_after=1)
        items, self._items, self._bytes = self._items, [], 0
        return items


class LogHub:
    """The one reader of run logs in this process and event loop."""

    def __init__(self) -> None:
        # redis-py types an answer as every shape it could have with any setting.
        self._redis: Any = redis_connect(settings.REDIS_URL)
        self._listeners: dict[str, set[Listener]] = {}
        self._cursors: dict[str, int] = {}
        self._notice_queues: dict[str, set[asyncio.Queue[dict[str, str]]]] = {}
        self._notice_cursor = "$"
        self._bell = f"agentx:bell:{uuid4()}"
        self._bell_cursor = "0"
        self._task: asyncio.Task[None] | None = None
        self.available = True

    @contextlib.asynccontextmanager
    async def listening(
        self, *, run_id: str, after: int | None = None
    ) -> AsyncIterator[tuple[Listener, int]]:
        """Register a listener; gives it and the seq after which the hub feeds it (it reads up to there itself).

        ``after``: that seq, where it is known. Someone who follows the run already has the hub read on from there.
        """
        try:
            head = await self.log_head(run_id=run_id) if after is None else after
        except (redis.exceptions.RedisError, OSError):
            head = 0  # the hub will feed everything once Redis is back
        listener = Listener(run_id)
        self._listeners.setdefault(run_id, set()).add(listener)
        cursor = self._cursors.setdefault(run_id, head)
        try:
            self._start()
            await self._ring()
            yield listener, cursor
        finally:
            followers = self._listeners.get(run_id, set())
            followers.discard(listener)
            if not followers:
                self._listeners.pop(run_id, None)
                self._cursors.pop(run_id, None)

    @contextlib.contextmanager
    def noticing(self, *, conversation_id: str):
        """A queue of notices about one conversation, for as long as the context lasts."""
        queue: asyncio.Queue[dict[str, str]] = asyncio.Queue(maxsize=100)
        self._notice_queues.setdefault(conversation_id, set()).add(queue)
        self._start()
        try:
            yield queue
        finally:
            queues = self._notice_queues.get(conversation_id, set())
            queues.discard(queue)
            if not queues:
                self._notice_queues.pop(conversation_id, None)

    async def backlog(self, *, run_id: str, after: int, upto: int) -> list[tuple[int, bytes]]:
        """Events after ``after`` up to ``upto`` from the log. Raises ``RedisError``."""
        entries = await self._redis.xrange(log_key(run_id), f"({after}-0", f"{upto}-0")
        return [(_seq(entry_id), fields[b"e"]) for entry_id, fields in entries]

    async def log_head(self, *, run_id: str) -> int:
        """The seq of the newest logged event, 0 when there is no log. Raises ``RedisError``."""
        return int(await self._redis.hget(head_key(run_id), "seq") or 0)

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read_forever(), name="log-hub")

    async def _ring(self) -> None:
        """Make the blocking read return, so that it takes a new stream along."""
        with contextlib.suppress(redis.exceptions.RedisError, OSError):
            pipe = self._redis.pipeline(transaction=False)
            pipe.xadd(self._bell, {"r": "1"}, maxlen=1)
            pipe.expire(self._bell, 3600)
            await pipe.execute()

    async def _read_forever(self) -> None:
        delay = 0.1
        while True:
            try:
                await self._read_once()
                delay = 0.1
                self._set_available(True)
            except (redis.exceptions.RedisError, OSError) as error:
                self._set_available(False, error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 1.0)

    async def _read_once(self) -> None:
        if self._notice_cursor == "$":  # "$" again on every read would lose what comes between two reads
            newest = await self._redis.xrevrange(NOTICES, count=1)
            self._notice_cursor = newest[0][0].decode() if newest else "0-0"
        streams: dict[str, str] = {log_key(run): f"{seq}-0" for run, seq in self._cursors.items()}
        streams |= {self._bell: self._bell_cursor, NOTICES: self._notice_cursor}
        keys = {log_key(run).encode(): run for run in self._cursors}
        block = (
            BLOCK_MILLISECONDS if self.available else 1
        )  # after an outage: look at once, so that listeners hear
        answer = await self._redis.xread(streams, count=EVENTS_PER_READ, block=block)
        for key, entries in answer or []:
            if key == self._bell.encode():
                self._bell_cursor = entries[-1][0].decode()
            elif key == NOTICES.encode():
                self._notices_take(entries)
            elif (run := keys[key]) in self._cursors:
                for entry_id, fields in entries:
                    seq = _seq(entry_id)
                    for listener in self._listeners.get(run, ()):
                        listener.put(seq, fields[b"e"])
                self._cursors[run] = max(self._cursors[run], _seq(entries[-1][0]))

    def _notices_take(self, entries: list) -> None:
        self._notice_cursor = entries[-1][0].decode()
        for _, fields in entries:
            notice = {key.decode(): value.decode() for key, value in fields.items()}
            for queue in self._notice_queues.get(notice.get("conversation", ""), ()):
                with contextlib.suppress(asyncio.QueueFull):
                    queue.put_nowait(notice)

    def _set_available(self, available: bool, error: Exception | None = None) -> None:
        if available == self.available:
            return
        self.available = available
        if error is not None:
            log.warning("live_events_unavailable", error=type(error).__name__)
        else:
            log.info("live_events_back")
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.poke()


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LogHub] = weakref.WeakKeyDictionary()


def log_hub() -> LogHub:
    """The hub of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = LogHub()
    return _hubs[loop]


def _seq(entry_id: bytes) -> int:
    return int(entry_id.split(b"-", 1)[0])
