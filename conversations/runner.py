"""The runner: a process that claims queued runs and writes their answers, many at a time, in one event loop.

Turns do not run in the web process, which a deployment would kill, nor in Celery, whose redelivery is wrong for them.
Any number of runners may work; any of them may die at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

import django.db
import redis.exceptions
import structlog
from django.conf import settings

from agentx.errors import Draining, LeaseLost, TurnStopped
from agentx.llm.client import ChatModel
from agentx.llm.counting import LlamaCppCounter
from agentx.llm.profiles import reported_window
from agentx.llm.routes import ModelRoute
from agentx.model_routes import chat_routes, route_model
from agentx.threads import in_db_thread
from conversations.contracts import RunClaim
from conversations.services.candidates import Candidate
from conversations.services.control import TurnControl
from conversations.services.leases import Held, cancels_pending, leases_renew, runs_claim, runs_reap
from conversations.services.presence import presence_save
from conversations.services.run import TurnTools, turn_run
from conversations.stream import NOTICES, LogWriter, redis_connect
from tools.contracts import Tool
from tools.registry import default_registry

log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
REAP_SECONDS = 5.0
# When a server that does not name its window is asked again: loading a large model takes a minute or two.
WINDOW_ASKED_AFTER = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
# An owner stops by itself this long before its lease ends, by its own clock.
LEASE_MARGIN = 10.0


@dataclass(slots=True)
class _Working:
    claim: RunClaim
    control: TurnControl
    task: asyncio.Task[None]
    renewed: float = field(default_factory=time.monotonic)


class Runner:
    """One runner. ``run`` returns after ``stop`` once every turn has ended or the grace is over.

    ``tools``: what its turns may call; None for the installation's.
    """

    def __init__(self, *, tools: tuple[Tool, ...] | None = None) -> None:
        self._offered = default_registry().tools if tools is None else tools
        self._name = settings.RUNNER_ID or f"{socket.gethostname()}-{os.getpid()}"
        self.instance = f"{self._name}/{uuid4().hex[:8]}"
        self._working: dict[UUID, _Working] = {}
        self._stopping = asyncio.Event()
        self._grace_over = asyncio.Event()
        self._wake = asyncio.Event()

    def stop(self) -> None:
        """Claim nothing more; let what runs finish within ``RUN_DRAIN_SECONDS``. Asked again: interrupt it now."""
        if self._stopping.is_set():
            self._grace_over.set()
        self._stopping.set()
        self._wake.set()

    async def run(self) -> None:
        """Work until stopped."""
        self._writer = LogWriter(url=settings.REDIS_URL, flush_seconds=settings.EVENT_FLUSH_SECONDS)
        self._tools = await self._tools_make()
        log.info(
            "runner_started",
            instance=self.instance,
            window=self._tools.candidates[0].reported_window,
            models=len(self._tools.candidates),
        )
        # A named runner knows that its earlier life is over: what it left need not wait for its lease.
        await self._guarded(runs_reap, predecessor=settings.RUNNER_ID or None, instance=self.instance)
        loops = [
            asyncio.create_task(loop())
            for loop in (self._heartbeat, self._reap, self._notices, self._cancels, self._window_await)
        ]
        try:
            await self._claim_forever()
            await self._drain()
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self._writer.aclose()
            for candidate in self._tools.candidates:
                await candidate.model.aclose()
                if candidate.request_counter is not None:
                    await candidate.request_counter.aclose()
            log.info("runner_stopped", instance=self.instance)

    async def _tools_make(self) -> TurnTools:
        candidates = await asyncio.gather(
            *(_with_window(Candidate(route=route, model=_model_make(route))) for route in chat_routes())
        )
        return TurnTools(candidates=tuple(candidates), tools=self._offered)

    async def _window_await(self) -> None:
        """Ask again for a while: a llama.cpp server that is still loading its model answers only later.

        Another kind of server never will, and runners that knew different windows would disagree about every epoch.
        """
        for delay in WINDOW_ASKED_AFTER:
            known = self._tools.candidates
            if all(candidate.reported_window for candidate in known):
                return
            await asyncio.sleep(delay)
            asked = await asyncio.gather(*(_with_window(candidate) for candidate in known))
            for candidate, before in zip(asked, known, strict=True):
                if candidate.reported_window != before.reported_window:
                    log.info("window_reported", model=candidate.route.model, window=candidate.reported_window)
            self._tools = replace(self._tools, candidates=tuple(asked))

    async def _claim_forever(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            room = settings.RUNNER_CONCURRENCY - len(self._working)
            claims = await self._guarded(runs_claim, owner=self.instance, limit=room) if room else []
            for claim in claims or []:
                self._start(claim)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL_SECONDS)

    def _start(self, claim: RunClaim) -> None:
        control = TurnControl()
        task = asyncio.create_task(self._turn(claim, control), name=f"turn-{claim.run_id}")
        self._working[claim.run_id] = _Working(claim=claim, control=control, task=task)

    async def _turn(self, claim: RunClaim, control: TurnControl) -> None:
        structlog.contextvars.bind_contextvars(run_id=str(claim.run_id))
        try:
            run_log = self._writer.open(run_id=claim.run_id, token=claim.token)
            await turn_run(claim=claim, run_log=run_log, control=control, tools=self._tools)
        except Exception:
            log.exception("turn_lost")  # its lease runs out, and the reaper settles it
        finally:
            self._working.pop(claim.run_id, None)
            self._wake.set()

    async def _heartbeat(self) -> None:
        """Renew leases; end turns whose lease is gone, or would be before we could know."""
        while True:
            working = list(self._working.values())
            held = [Held(run_id=item.claim.run_id, token=item.claim.token) for item in working]
            asked = time.monotonic()
            renewal = await self._guarded(leases_renew, held=held) if held else None
            for item in working:
                if renewal is not None and item.claim.run_id in renewal.renewed:
                    item.renewed = asked
                lost = renewal is not None and item.claim.run_id in renewal.lost
                if lost or time.monotonic() - item.renewed > self._trust_seconds():
                    item.control.end(LeaseLost())
            await self._guarded(presence_save, role="runner", instance=self.instance)
            await asyncio.sleep(settings.RUN_HEARTBEAT_SECONDS)

    def _trust_seconds(self) -> float:
        margin = min(LEASE_MARGIN, settings.RUN_LEASE_SECONDS / 3)
        return settings.RUN_LEASE_SECONDS - margin

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(min(REAP_SECONDS, settings.RUN_LEASE_SECONDS))
            await self._guarded(runs_reap)

    async def _cancels(self) -> None:
        """Look for stops in the database: a notice can be lost, a stop may not be."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._working:
                for run_id in await self._guarded(cancels_pending, run_ids=list(self._working)) or ():
                    self._cancel(run_id)

    def _cancel(self, run_id: UUID) -> None:
        if item := self._working.get(run_id):
            item.control.end(TurnStopped())

    async def _notices(self) -> None:
        """Hear at once what the polls would find within a second."""
        client: Any = redis_connect(settings.REDIS_URL)
        cursor = "$"
        while True:
            try:
                answer = await client.xread({NOTICES: cursor}, block=5_000, count=200)
            except (redis.exceptions.RedisError, OSError):
                await asyncio.sleep(0.5)
                continue
            for _, entries in answer or []:
                cursor = entries[-1][0].decode()
                for _, fields in entries:
                    self._notice(kind=fields.get(b"kind", b""), run=fields.get(b"run", b"").decode())

    def _notice(self, *, kind: bytes, run: str) -> None:
        if kind == b"queued":
            self._wake.set()
        elif kind == b"cancel":
            with contextlib.suppress(ValueError):
                self._cancel(UUID(run))

    async def _drain(self) -> None:
        """Let turns finish; interrupt the rest, whose partial answers are stored by their own commit."""
        if not self._working:
            return
        log.info("runner_draining", turns=len(self._working))
        finished = asyncio.gather(*(item.task for item in self._working.values()))
        hurry = asyncio.create_task(self._grace_over.wait())
        await asyncio.wait(
            {finished, hurry}, timeout=settings.RUN_DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        hurry.cancel()
        for item in list(self._working.values()):
            item.control.end(Draining())
        if rest := {item.task for item in self._working.values()}:
            await asyncio.wait(rest, timeout=10)

    async def _guarded(self, func, /, **kwargs):
        """A database hop of a loop that must outlive any failure of it: None when it failed.

        A heartbeat or a reaper that ended with its first error would take every turn of this runner with it.
        """
        try:
            return await in_db_thread(func, **kwargs)
        except django.db.Error as error:
            log.warning("database_unavailable", during=func.__name__, error=type(error).__name__)
            return None
        except Exception:
            log.exception("runner_loop_failed", during=func.__name__)
            return None


def _model_make(route: ModelRoute) -> ChatModel:
    return route_model(
        route, read_timeout=settings.MODEL_STALL_SECONDS * 2, max_connections=settings.RUNNER_CONCURRENCY
    )


async def _with_window(candidate: Candidate) -> Candidate:
    """The candidate with what its server says of itself."""
    address = {"base_url": candidate.route.base_url, "api_key": candidate.route.api_key}
    window = candidate.reported_window or await reported_window(**address)
    if window and candidate.request_counter is not None:
        return candidate
    # Only llama.cpp's server reports its window so, and only that one can be asked for exact counts.
    counter = LlamaCppCounter(**address) if window else None
    return replace(candidate, reported_window=window, request_counter=counter)


async def runner_main() -> None:
    """Run one runner until SIGTERM or SIGINT; a second signal ends the grace."""
    runner = Runner()
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(runner.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runner.stop)
    await task
