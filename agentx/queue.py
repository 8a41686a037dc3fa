"""The edge of the task queue: work that can wait is queued by name, after commit, without waiting for the broker.

Callers stand in a request or at the end of a turn; neither may fail or slow down because the broker is away. So a
thread of the process does the sending. What it cannot send is dropped with a warning: every task that is queued here
has a sweep of the beat behind it, which finds the same work in the database.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Mapping
from functools import cache
from uuid import UUID

import structlog
from celery import Celery, current_app
from django.db import transaction

log = structlog.get_logger(__name__)

WAITING_AT_MOST = 1_000  # a few seconds of the fastest runner; beyond that the sweep is the better way
FLUSH_SECONDS = 2.0

# A connection that a restarted broker has left half open fails once; more than that is an absent broker.
_RETRY_ONCE = {"max_retries": 1, "interval_start": 0, "interval_step": 0}

Ids = Mapping[str, UUID | str | int]


def enqueue_on_commit(name: str, /, **ids: UUID | str | int) -> None:
    """Queue the task registered as ``name`` with ``ids`` as its keyword arguments once the transaction has committed.

    UUIDs arrive as text. Raises ``LookupError`` for a name that no task has; the broker is never waited for.
    """
    if name not in _known_names():
        raise LookupError(f"no task is registered as {name!r}")
    sent = {key: str(value) if isinstance(value, UUID) else value for key, value in ids.items()}
    transaction.on_commit(lambda: _sender.put(name, sent))


def queue_flush(*, timeout: float = FLUSH_SECONDS) -> bool:
    """Wait until everything queued so far has been sent or dropped; False when that takes longer than ``timeout`` s."""
    return _sender.flush(timeout=timeout)


@cache
def _known_names() -> frozenset[str]:
    """Read once a process. The loader's own way would also run every system check, which takes a second."""
    app = _app()
    app.autodiscover_tasks(force=True)
    return frozenset(app.tasks)


def _app() -> Celery:
    """The application of this process, which ``agentx.apps`` has made the default one of all its threads."""
    return current_app._get_current_object()


class _Sender:
    """A bounded queue and the thread that empties it, started with the first item and again after a fork."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: in a forked child the thread is gone, and what waited is the parent's to send."""
        self._waiting: queue.Queue[tuple[str, Ids] | threading.Event] = queue.Queue(WAITING_AT_MOST)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, name: str, ids: Ids) -> None:
        try:
            self._waiting.put_nowait((name, ids))
        except queue.Full:
            log.warning("task_dropped", task=name, reason="too many are waiting", **ids)
        self._start()

    def flush(self, *, timeout: float) -> bool:
        if self._thread is None:
            return True
        reached = threading.Event()
        try:
            self._waiting.put(reached, timeout=timeout)
        except queue.Full:
            return False
        return reached.wait(timeout)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="task-sender", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            item = self._waiting.get()
            if isinstance(item, threading.Event):
                item.set()
            else:
                _send(*item)


def _send(name: str, ids: Ids) -> None:
    try:
        _app().send_task(name, kwargs=dict(ids), ignore_result=True, retry=True, retry_policy=_RETRY_ONCE)
    except Exception as error:
        log.warning("task_dropped", task=name, reason=type(error).__name__, **ids)


_sender = _Sender()
os.register_at_fork(after_in_child=_sender.forget)
atexit.register(queue_flush)
