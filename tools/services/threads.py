"""Threads for tools that are plain functions: their own, so that tools that hang take nothing from the turns around them.

The executors of the standard library are joined when the interpreter exits, so one tool that never returns would keep a
runner that was told to stop from ever stopping. These threads are daemons, and one is begun for each call that finds
no other waiting for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeVar

from django.db import connection

T = TypeVar("T")

# Above the 30 calls that one answer may well make, so that a few that hang are not in the way of the others. Beyond it,
# calls wait within their own time.
MOST_THREADS = 48


class ToolCrashed(Exception):
    """A tool tried to end its process or thread; the argument is the name of what it raised."""


class DaemonThreads:
    """At most ``most`` threads, which end when there is nothing to do and never hold up the end of the process."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._alive = 0
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Have ``work`` done. Cancelled before it has begun, it never begins."""
        future: Future[T] = Future()
        with self._lock:
            if self._alive >= self._most:
                self._waiting.append((future, work))
                return future
            self._alive += 1
        try:
            threading.Thread(target=self._serve, args=(future, work), name="tool", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._alive -= 1
            raise
        return future

    def _serve(self, future: Future[Any], work: Callable[[], Any]) -> None:
        while True:
            if future.set_running_or_notify_cancel():
                try:
                    result = work()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
            with self._lock:
                if not self._waiting:
                    self._alive -= 1
                    return
                future, work = self._waiting.popleft()


_threads = DaemonThreads(most=MOST_THREADS)


async def in_tool_thread(func: Callable[..., T], /, *args: Any) -> T:
    """Call ``func`` in a thread with the caller's context variables; its connection is given back afterwards.

    Cancelled, it returns at once; a function that is running goes on, and its result is dropped. Raises ``ToolCrashed`` for
    what is no ``Exception``, since ``SystemExit`` in a task would end the event loop of the whole process.
    """
    variables = copy_context()

    def work() -> T:
        try:
            return variables.run(func, *args)
        except Exception:
            raise
        except BaseException as error:
            raise ToolCrashed(type(error).__name__) from error
        finally:
            connection.close()

    return await asyncio.wrap_future(_threads.submit(work))
