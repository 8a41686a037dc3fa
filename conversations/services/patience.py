"""Waiting for a database that is away: a turn that has begun outlives a restart of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

import django.db
import structlog

from agentx.threads import in_db_thread

log = structlog.get_logger(__name__)

# How long a turn waits for a database that is away; the lease lasts longer by default.
DATABASE_PATIENCE_SECONDS = 30.0

R = TypeVar("R")


async def db_patiently(hop: Callable[[], R], *, on_failure: Callable[[], None] = lambda: None) -> R:
    """A database hop, repeated for up to ``DATABASE_PATIENCE_SECONDS`` while the database cannot be reached.

    Errors that would come again, such as a value that no column takes, are raised at once.
    """
    deadline = time.monotonic() + DATABASE_PATIENCE_SECONDS
    delay = 0.1
    while True:
        try:
            return await in_db_thread(hop)
        except (django.db.OperationalError, django.db.InterfaceError) as error:
            on_failure()
            if time.monotonic() > deadline:
                raise
            log.warning("database_awaited", error=type(error).__name__)
            await asyncio.sleep(delay)
            delay = min(delay * 2, 2.0)
