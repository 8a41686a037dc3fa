"""Whether the parts of the product answer, found out within two seconds even when they do not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from datetime import timedelta

import django.db
import httpx2
import redis
import redis.exceptions
from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models.functions import Now

from agentx.llm.tls import tls_context
from agentx.redis_client import redis_client
from conversations.models import ProcessPresence

# A probe that has said nothing by then counts as down; the page asks again soon.
PATIENCE_SECONDS = 1.5
# Runners report every 10 s; three missed reports are a dead process.
PRESENT_FOR = timedelta(seconds=30)
MODEL_TIMEOUT_SECONDS = 1.0
MODEL_CACHE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Component:
    """One part: whether it works, and a sentence about it."""

    ok: bool
    detail: str


def status_read() -> dict[str, Component]:
    """Database, Redis, runner, worker and model, asked at the same time."""
    asked = {
        "database": _ask(_database),
        "redis": _ask(_redis),
        "processes": _ask(_processes),
        "model": _ask(_model),
    }
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: dict[str, Component] = {}
    for name in ("database", "redis", "model"):
        found |= _answer(asked[name], names=(name,), deadline=deadline)
    found |= _answer(asked["processes"], names=("runner", "worker"), deadline=deadline)
    return {name: found[name] for name in ("database", "redis", "runner", "worker", "model")}


def readiness_read() -> dict[str, Component]:
    """What must work before requests may come: a migrated database, Redis, and the broker of background work."""
    asked = {"database": _ask(_migrated), "redis": _ask(_redis), "broker": _ask(_broker)}
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: dict[str, Component] = {}
    for name, future in asked.items():
        found |= _answer(future, names=(name,), deadline=deadline)
    return found


Found = dict[str, Component]

_pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="health")


def _ask(probe: Callable[[], Found]) -> Future[Found]:
    def call() -> Found:
        try:
            return probe()
        finally:
            connection.close()

    return _pool.submit(call)


def _answer(future: Future[Found], *, names: tuple[str, ...], deadline: float) -> Found:
    """What a probe found; down when it failed or has not answered in time."""
    try:
        return future.result(timeout=max(0.0, deadline - time.monotonic()))
    except NotInTime:
        future.cancel()  # else probes of a dead part would queue up behind each other
        detail = "does not answer"
    except (django.db.Error, redis.exceptions.RedisError, OSError) as error:
        detail = f"is not available ({type(error).__name__})"
    return {name: Component(ok=False, detail=detail) for name in names}


def _database() -> Found:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return {"database": Component(ok=True, detail="answers")}


def _redis() -> Found:
    redis_client().ping()
    return {"redis": Component(ok=True, detail="answers")}


def _broker() -> Found:
    url = settings.CELERY_BROKER_URL
    if url == settings.REDIS_URL:
        redis_client().ping()
    else:
        with redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=0.5) as client:
            client.ping()
    return {"broker": Component(ok=True, detail="answers")}


_migrated_once = threading.Event()


def _migrated() -> Found:
    """Comparing with the migration files costs 30 ms, and what is migrated stays so: asked until it is true once."""
    if not _migrated_once.is_set():
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if missing:
            return {
                "database": Component(ok=False, detail=f"{len(missing)} migrations have not been applied")
            }
        _migrated_once.set()
        return {"database": Component(ok=True, detail="answers and is migrated")}
    _database()
    return {"database": Component(ok=True, detail="answers and is migrated")}


def _processes() -> Found:
    fresh = ProcessPresence.objects.filter(seen_at__gt=Now() - PRESENT_FOR)
    roles = set(fresh.values_list("role", flat=True).distinct())
    seconds = int(PRESENT_FOR.total_seconds())
    return {
        role: Component(ok=True, detail="works")
        if role in roles
        else Component(ok=False, detail=f"has not been seen for {seconds} seconds")
        for role in ("runner", "worker")
    }


_model_lock = threading.Lock()
_model_known: tuple[float, str, Component] | None = None


def _model() -> Found:
    """Whether the model's server answers; asked at most every ten seconds for each address."""
    global _model_known
    with _model_lock:
        known = _model_known
        if known and known[1] == settings.LLM_BASE_URL and time.monotonic() - known[0] < MODEL_CACHE_SECONDS:
            return {"model": known[2]}
        component = _model_ask(settings.LLM_BASE_URL)
        _model_known = (time.monotonic(), settings.LLM_BASE_URL, component)
        return {"model": component}


def _model_ask(base_url: str) -> Component:
    headers = {"Authorization": f"Bearer {settings.LLM_API_KEY}"} if settings.LLM_API_KEY else {}
    url = f"{base_url.rstrip('/')}/models"
    try:
        with (
            httpx2.Client(verify=tls_context(), timeout=MODEL_TIMEOUT_SECONDS, trust_env=False) as client,
            client.stream(
                "GET", url, headers=headers
            ) as answer,  # the body is never read: it may be of any size
        ):
            status = answer.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return Component(ok=False, detail="cannot be reached")
    if status in (401, 403):
        return Component(ok=False, detail="rejects the API key")
    if status >= 500:
        return Component(ok=False, detail="answers with an error")
    return Component(ok=True, detail="answers")
