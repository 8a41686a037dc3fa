"""Runs as server-sent events, and waiting for a run's end, without holding a database connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from uuid import UUID

import django.db
import redis.exceptions
import structlog
from django.conf import settings
from django.http import StreamingHttpResponse

from agentx.errors import AgentXError
from agentx.http import release_connection
from conversations.services.attach import Item, new_run_follow, run_follow
from conversations.wire import TurnAcceptedBody

log = structlog.get_logger(__name__)

# Proxies cut silent connections after 60 s by default; four comments fit into that.
COMMENT_SECONDS = 15.0
WAIT_SECONDS = 600.0
COMMENT = b": \n\n"


def event_stream(*, user_id: int, run_id: UUID, after: int, epoch: str | None) -> StreamingHttpResponse:
    """The response that carries a run's events from ``after`` on. The caller has checked access."""
    return _stream(run_follow(user_id=user_id, run_id=run_id, after=after, epoch=epoch))


def turn_stream(*, user_id: int, accepted: TurnAcceptedBody) -> StreamingHttpResponse:
    """The response that carries the events of a turn that has just been accepted, or was with the same key before."""
    if not accepted.created:
        return event_stream(user_id=user_id, run_id=accepted.run.id, after=0, epoch=None)
    return _stream(new_run_follow(user_id=user_id, run=accepted.run))


def _stream(items: AsyncIterator[Item]) -> StreamingHttpResponse:
    release_connection()
    response = StreamingHttpResponse(
        _drop_slow_reader(_with_comments(items)),
        content_type="text/event-stream; charset=utf-8",
    )
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"
    return response


async def run_end_wait(*, user_id: int, run_id: UUID) -> bool:
    """Whether the run ended within ten minutes."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS):
            async with contextlib.aclosing(run_follow(user_id=user_id, run_id=run_id)) as items:  # type: ignore[type-var]
                async for _item in items:
                    pass
            return True
    return False


def encode_item(item: Item) -> bytes:
    """One event of the stream. Frames have no ``id``, so that a reconnect names the last logged event."""
    head = b"" if item.seq is None else b"id: %d\n" % item.seq
    return head + b"event: " + item.type.encode() + b"\ndata: " + item.payload + b"\n\n"


async def _with_comments(items: AsyncIterator[Item]) -> AsyncIterator[bytes]:
    """A comment at once and in every silence, then the items. A failure ends the stream; the client comes back."""
    yield COMMENT
    source = aiter(items)
    upcoming: asyncio.Future[Item] | None = None
    try:
        while True:
            upcoming = upcoming or asyncio.ensure_future(anext(source))
            done, _ = await asyncio.wait([upcoming], timeout=COMMENT_SECONDS)
            if not done:
                yield COMMENT
                continue
            finished, upcoming = upcoming, None
            try:
                item = finished.result()
            except StopAsyncIteration:
                return
            yield encode_item(item)
    except (AgentXError, django.db.Error, redis.exceptions.RedisError, OSError) as error:
        log.info("event_stream_ended", reason=type(error).__name__)
    finally:
        if upcoming is not None:
            upcoming.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await upcoming
        await source.aclose()  # type: ignore[attr-defined]


async def _drop_slow_reader(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Cancel the request when one chunk is not taken within ``SLOW_CLIENT_SECONDS``.

    While this generator waits in ``yield``, the server waits for the client's socket to take what was sent.
    """
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    try:
        async for chunk in chunks:
            timer = None if task is None else loop.call_later(settings.SLOW_CLIENT_SECONDS, task.cancel)
            try:
                yield chunk
            finally:
                if timer is not None:
                    timer.cancel()
    finally:
        await chunks.aclose()  # type: ignore[attr-defined]
