"""Letting requests in: in order, a few side by side, so that many which come in the same moment do not starve each other.

A request computes most of its time, and its thread shares one interpreter with the event loop that carries every stream. With
128 of them at work at once each takes seconds, tokens on their way wait as long, and some requests find no database connection.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from agentx.errors import Unavailable

# Requests that compute at once. More are not quicker on any number of cores, since they share one interpreter.
SIDE_BY_SIDE = 3
# A request that takes longer than this many seconds waits for something; the next may compute meanwhile.
COMPUTES_AT_MOST = 1.0
# How many seconds a request waits to be let in before it is told to come back.
PATIENCE = 15.0


class _Slot:
    """One request's right to be at work: ``computing`` beside few others, and holding one of the database's connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *held: asyncio.Semaphore) -> None:
        self._loop = loop
        self._held = list(held)
        self._timer: asyncio.TimerHandle | None = None

    def take(self, semaphore: asyncio.Semaphore) -> None:
        """It computes from now on, for a while."""
        self._held.append(semaphore)
        self._timer = self._loop.call_later(COMPUTES_AT_MOST, partial(self._give, semaphore))

    def _give(self, semaphore: asyncio.Semaphore) -> None:
        if semaphore in self._held:
            self._held.remove(semaphore)
            semaphore.release()

    def release(self) -> None:
        """Give everything back. Doing it again does nothing."""
        if self._timer is not None:
            self._timer.cancel()
        for semaphore in list(self._held):
            self._give(semaphore)

    def release_from_thread(self) -> None:
        self._loop.call_soon_threadsafe(self.release)


_current: contextvars.ContextVar[_Slot | None] = contextvars.ContextVar("admission", default=None)


class Admission:
    """The gate of one process. ``at_most``: requests inside at once, of those that have not said that they only wait."""

    def __init__(self, *, at_most: int) -> None:
        self._computing = asyncio.Semaphore(SIDE_BY_SIDE)
        self._inside = asyncio.Semaphore(at_most)

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Inside, in the order of coming. Raises ``Unavailable`` when that takes longer than ``PATIENCE``."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._inside.acquire()
        except TimeoutError:
            raise Unavailable("Too many requests are at work; try again in a moment") from None
        slot = _Slot(asyncio.get_running_loop(), self._inside)
        token = _current.set(slot)
        try:
            await self._computing.acquire()
            slot.take(self._computing)
            yield
        finally:
            _current.reset(token)
            slot.release()


def leave() -> None:
    """Called by a request, in its thread, that will only wait from now on: the next may come in."""
    if (slot := _current.get()) is not None:
        slot.release_from_thread()
