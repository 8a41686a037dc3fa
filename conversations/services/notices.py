"""Hints to other processes: a run waits, a run is to stop. Sent after commit; every receiver also looks for itself."""

from __future__ import annotations

import contextlib
from uuid import UUID

import redis
from django.db import transaction

from agentx.redis_client import redis_client
from conversations.stream import NOTICES, NOTICES_KEPT


def notice_on_commit(*, kind: str, conversation_id: UUID, run_id: UUID | None = None) -> None:
    """Publish a notice once the current transaction has committed; a dead Redis costs half a second and nothing else."""

    def publish() -> None:
        fields: dict[str, str] = {
            "kind": kind,
            "conversation": str(conversation_id),
            "run": str(run_id or ""),
        }
        with contextlib.suppress(redis.exceptions.RedisError, OSError):
            redis_client().xadd(NOTICES, fields, maxlen=NOTICES_KEPT, approximate=True)

    transaction.on_commit(publish)
