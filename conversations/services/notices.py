"""Hints to other processes: a run waits, a run is to stop. Sent after commit; every receiver also looks for itself."""

from __future__ import annotations

import contextlib
from functools import cache
from uuid import UUID

import redis
from django.conf import settings
from django.db import transaction
from redis.backoff import NoBackoff
from redis.retry import Retry

from conversations.stream import NOTICES, NOTICES_KEPT


@cache
def redis_client() -> redis.Redis:
    """The synchronous client of this process. It fails fast: nothing that is sent here may hold up a request."""
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=0.5, retry=Retry(NoBackoff(), 0)
    )


def notice_on_commit(*, kind: str, conversation_id: UUID, run_id: UUID) -> None:
    """Publish a notice once the current transaction has committed; a dead Redis costs half a second and nothing else."""

    def publish() -> None:
        fields: dict[str, str] = {"kind": kind, "conversation": str(conversation_id), "run": str(run_id)}
        with contextlib.suppress(redis.exceptions.RedisError, OSError):
            redis_client().xadd(NOTICES, fields, maxlen=NOTICES_KEPT, approximate=True)  # type: ignore[arg-type]

    transaction.on_commit(publish)
