"""The synchronous Redis client of a process, for counters and pings inside a request."""

from __future__ import annotations

from functools import cache
from typing import Any

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry


@cache
def redis_client() -> Any:
    """Untyped, since redis-py types each answer as every shape that any client could get. It fails fast and does not retry: no request may hang because a counter is away. Raises ``RedisError``."""
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=0.5, retry=Retry(NoBackoff(), 0)
    )
