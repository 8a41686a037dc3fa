"""Following a run: every event after a seq, once, in order, then live, from any process at any time.

One reader per process serves all its listeners: it waits on all followed streams with a single blocking read. Each
listener checks that seqs are dense; where the log cannot give what was asked for, the answer is an explicit reset with
the state from PostgreSQL, never a silent gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import django.db
import orjson
import redis.exceptions
import structlog
from django.conf import settings

from agentx.errors import TooMany
from agentx.threads import in_db_thread
from conversations.contracts import Settled
from conversations.events import Attached, Live, Reset, RunMissing, encode_event
from conversations.models import Run
from conversations.selectors import access
from conversations.selectors.bodies import message_body, run_body
from conversations.services.leases import run_settle_if_expired
from conversations.services.terminal import terminal_events
from conversations.stream import NOTICES, head_key, log_key, redis_connect
from conversations.wire import PartialBody, RunBody, Wire

log = structlog.get_logger(__name__)

BLOCK_MILLISECONDS = 5_000
EVENTS_PER_READ = 256
# How often a listener looks at the run's row although nothing came: the log may have lost its end.
ROW_CHECK_SECONDS = 10.0
ROW_CHECK_SECONDS_BLIND = 1.0


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to send: an event (``seq`` set) or a frame. ``payload`` is its JSON."""

    type: str
    payload: bytes
    seq: int | None = None


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
    async def listening(self, *, run_id: str) -> AsyncIterator[tuple[Listener, int]]:
        """Register a listener; gives it and the seq after which the hub feeds it (it reads up to there itself)."""
        try:
            head = await self.log_head(run_id=run_id)
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


async def run_follow(
    *, user_id: int, run_id: UUID, after: int = 0, epoch: str | None = None
) -> AsyncIterator[Item]:
    """``attached`` or ``reset``, then every event after it in order, ending with ``close`` or ``run_missing``.

    Raises ``NotFound`` for a run that is not the user's and ``TooMany`` when the listener is too slow.
    """
    state = await in_db_thread(_follow_state, user_id=user_id, run_id=run_id)
    hub = log_hub()
    follower = _Follower(hub=hub, user_id=user_id, state=state, last=after)
    if after and epoch not in (None, state.run.epoch):
        yield follower.start_over()  # those seqs were another log's
    else:
        yield _frame(Attached(run_id=run_id, epoch=state.run.epoch, after=after))
    async with hub.listening(run_id=str(run_id)) as (listener, fed_from):
        async for item in follower.items(listener, fed_from):
            yield item


@dataclass(frozen=True, slots=True)
class _State:
    """The run's row, its partial text, and its end when it has one."""

    run: RunBody
    partial: PartialBody
    settled: Settled | None


class _Follower:
    """The rules of one attachment: dense seqs, explicit resets, an end that always comes."""

    def __init__(self, *, hub: LogHub, user_id: int, state: _State, last: int) -> None:
        self._hub = hub
        self._user_id = user_id
        self._state = state
        self.last = last
        self._live = True
        self._bridge_again = 0.0

    async def items(self, listener: Listener, fed_from: int) -> AsyncIterator[Item]:
        async for item in self._first(listener, fed_from):
            yield item
            if _ends(item):
                return
        checked = time.monotonic()
        while True:
            patience = ROW_CHECK_SECONDS if self._hub.available else ROW_CHECK_SECONDS_BLIND
            events = await listener.take(timeout=patience)
            if notice := self._live_change():
                yield notice
            async for item in self._advance(events):
                yield item
                if _ends(item):
                    return
            if not events and time.monotonic() - checked >= min(patience, 1.0):
                checked = time.monotonic()
                async for item in self._check_row():
                    yield item
                    if _ends(item):
                        return

    async def _first(self, listener: Listener, fed_from: int) -> AsyncIterator[Item]:
        """The part of the log that lies before what the hub feeds, or what stands in for a log that is gone."""
        run_id, settled = listener.run_id, self._state.settled
        try:
            head = await self._hub.log_head(run_id=run_id)
            unheard = 0 < head < self.last or (self.last and self._state.run.status == Run.Status.QUEUED)
            if unheard and settled is None:  # nobody can have been sent what was never logged
                self.last = 0
                yield self._reset_frame(self._state.run, "")
            events = await self._hub.backlog(run_id=run_id, after=self.last, upto=max(head, fed_from))
        except (redis.exceptions.RedisError, OSError):
            if settled is not None:
                async for item in self._conclude():
                    yield item
            return
        if settled is not None and not events:  # expired, or the listener has everything
            yield _frame(RunMissing(run_id=settled.run.id, run_status=settled.run.status))
            return
        async for item in self._advance(events):
            yield item
            if _ends(item):
                return
        if settled is not None:  # what was read has no end, wherever it breaks off
            async for item in self._conclude():
                yield item

    async def _advance(self, events: list[tuple[int, bytes]]) -> AsyncIterator[Item]:
        """Pass on what is next; repeat nothing; answer a gap from PostgreSQL."""
        for seq, payload in events:
            if seq <= self.last:
                continue
            if seq != self.last + 1:
                async for item in self._bridge(seq):
                    yield item
                    if _ends(item):
                        return
                if seq != self.last + 1:
                    continue
            self.last = seq
            yield Item(type=_event_type(payload), payload=payload, seq=seq)

    async def _bridge(self, seq: int) -> AsyncIterator[Item]:
        """The log goes on at ``seq``, beyond a gap: the checkpoint covers it, or the run's end does, or nothing yet."""
        if time.monotonic() < self._bridge_again:
            return
        self._bridge_again = time.monotonic() + 0.5
        with contextlib.suppress(django.db.Error):
            self._state = await in_db_thread(_follow_state, user_id=self._user_id, run_id=self._state.run.id)
        partial = self._state.partial
        if self._state.settled is not None:
            async for item in self._conclude():
                yield item
        elif partial.seq >= seq - 1:
            self.last = partial.seq
            yield self._reset_frame(self._state.run, partial.text)

    async def _check_row(self) -> AsyncIterator[Item]:
        """Nothing came for a while: the run may have ended without its log, or lost its owner.

        While no log can be read, the checkpoints stand in for it: a new one is a reset to a longer text.
        """
        with contextlib.suppress(django.db.Error):
            self._state = await in_db_thread(_follow_state, user_id=self._user_id, run_id=self._state.run.id)
            partial = self._state.partial
            if self._state.settled is not None:
                async for item in self._conclude():
                    yield item
            elif not self._hub.available and partial.seq > self.last:
                self.last = partial.seq
                yield self._reset_frame(self._state.run, partial.text)

    async def _conclude(self) -> AsyncIterator[Item]:
        """The end of a run from its row, for a log that does not have it."""
        settled = self._state.settled
        assert settled is not None
        final = settled.run.final_seq or 0
        if self.last >= final:
            yield _frame(RunMissing(run_id=settled.run.id, run_status=settled.run.status))
            return
        count = len(terminal_events(settled, last_seq=1))
        last_before = max(0, final - count)
        if self.last < last_before:
            self.last = last_before
            yield self._reset_frame(settled.run, settled.answer.content if settled.answer else "")
        for index, event in enumerate(
            terminal_events(settled, last_seq=last_before or 1), start=last_before + 1
        ):
            if index > self.last:
                self.last = index
                payload = encode_event(run_id=str(settled.run.id), seq=index, data=event)
                yield Item(type=event.type, payload=payload, seq=index)

    def start_over(self) -> Item:
        """Forget what the listener has; everything is sent again from the first event."""
        self.last = 0
        return self._reset_frame(self._state.run, "")

    def _reset_frame(self, run: RunBody, text: str) -> Item:
        partial = PartialBody(text=text, seq=self.last)
        return _frame(Reset(run_id=run.id, epoch=run.epoch, run_status=run.status, partial=partial))

    def _live_change(self) -> Item | None:
        if self._live == self._hub.available:
            return None
        self._live = self._hub.available
        text = (
            "Live text is back"
            if self._live
            else "Live text is not available; the answer goes on and will appear"
        )
        return _frame(Live(available=self._live, message=text))


def _follow_state(*, user_id: int, run_id: UUID) -> _State:
    """The run as it stands, after settling it in passing when its owner is gone. Raises ``NotFound``."""
    row = access.run_get(user_id=user_id, run_id=run_id)
    if row.status == Run.Status.RUNNING and run_settle_if_expired(run_id=run_id):
        row = access.run_get(user_id=user_id, run_id=run_id)
    run = run_body(row)
    settled = None
    if row.status not in Run.ACTIVE:
        answer = row.written_messages.order_by("-seq").first()
        settled = Settled(run=run, answer=None if answer is None else message_body(answer))
    return _State(run=run, partial=PartialBody(text=row.partial_text, seq=row.partial_seq), settled=settled)


def _frame(frame: Wire) -> Item:
    body = frame.model_dump(mode="json")
    return Item(type=body["type"], payload=orjson.dumps(body))


def _ends(item: Item) -> bool:
    return item.type in ("close", "run_missing")


def _seq(entry_id: bytes) -> int:
    return int(entry_id.split(b"-", 1)[0])


def _event_type(payload: bytes) -> str:
    """The type of an encoded event without parsing it: it stands second, and its data may be long."""
    start = payload.index(b'"type":"') + 8
    return payload[start : payload.index(b'"', start)].decode()
