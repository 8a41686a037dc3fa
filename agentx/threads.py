"""The hop from async code to the ORM.

Consumers and turns wait on sockets in one event loop; the ORM is synchronous. ``database_sync_to_async`` would put every
hop of a process on one thread (ten 0.5 s queries took 5.4 s), so hops go to a small pool of threads instead, and each
gives its connection back to the psycopg pool when it is done.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import connection

# Queries compute more than they wait. More threads would not be quicker, and the event loop, which shares the interpreter with
# them, would get its turn less often.
THREADS = 4

P = ParamSpec("P")
R = TypeVar("R")

_pool: ThreadPoolExecutor | None = None


def _executor() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        # As many threads as pooled connections: more would only wait in the pool's queue instead of this one.
        size = min(THREADS, settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"])
        _pool = ThreadPoolExecutor(max_workers=size, thread_name_prefix="orm")
    return _pool


async def in_db_thread(func: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run ``func`` in a database thread with the caller's context variables; exceptions come back as they are."""
    context = contextvars.copy_context()

    def call() -> R:
        try:
            return context.run(func, *args, **kwargs)
        finally:
            connection.close()

    return await asyncio.get_running_loop().run_in_executor(_executor(), call)
