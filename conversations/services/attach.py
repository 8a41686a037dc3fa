"""Following a run: every event after a seq, once, in order, then live, from any process at any time.

One reader per process serves all its listeners: it waits on all followed streams with a single blocking read. Each
listener checks that seqs are dense; where the log cannot give what was asked for, the answer is an explicit reset with
the state from PostgreSQL, never a silent gap.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import django.db
import orjson
import redis.exceptions

from agentx.threads import in_db_thread
from conversations.contracts import Settled
from conversations.events import Attached, Live, Reset, RunMissing, encode_event
from conversations.models import Run
from conversations.selectors import access
from conversations.selectors.bodies import answer_of, message_body, run_body
from conversations.services.hub import Listener, LogHub, log_hub
from conversations.services.leases import run_settle_if_expired
from conversations.services.terminal import terminal_events
from conversations.wire import PartialBody, RunBody, Wire

# How often a listener looks at the run's row although nothing came: the log may have lost its end.
ROW_CHECK_SECONDS = 10.0
ROW_CHECK_SECONDS_BLIND = 1.0


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to send: an event (``seq`` set) or a frame. ``payload`` is its JSON."""

    type: str
    payload: bytes
    seq: int | None = None


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


async def new_run_follow(*, user_id: int, run: RunBody) -> AsyncIterator[Item]:
    """The same from the first event on, for who has just made the run: all of it is still to come, and nothing is read."""
    state = _State(run=run, partial=PartialBody(text="", seq=0), settled=None)
    hub = log_hub()
    follower = _Follower(hub=hub, user_id=user_id, state=state, last=0)
    yield _frame(Attached(run_id=run.id, epoch=run.epoch, after=0))
    async with hub.listening(run_id=str(run.id), after=0) as (listener, fed_from):
        # Another listener, quicker than this one, may have had some of it already.
        items = follower.items(listener, fed_from) if fed_from else follower.live_items(listener)
        async for item in items:
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
        async for item in self.live_items(listener):
            yield item

    async def live_items(self, listener: Listener) -> AsyncIterator[Item]:
        """What the hub feeds, and the end that always comes."""
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
        answer = answer_of(row)
        settled = Settled(run=run, answer=None if answer is None else message_body(answer))
    return _State(run=run, partial=PartialBody(text=row.partial_text, seq=row.partial_seq), settled=settled)


def _frame(frame: Wire) -> Item:
    body = frame.model_dump(mode="json")
    return Item(type=body["type"], payload=orjson.dumps(body))


def _ends(item: Item) -> bool:
    return item.type in ("close", "run_missing")


def _event_type(payload: bytes) -> str:
    """The type of an encoded event without parsing it: it stands second, and its data may be long."""
    start = payload.index(b'"type":"') + 8
    return payload[start : payload.index(b'"', start)].decode()
