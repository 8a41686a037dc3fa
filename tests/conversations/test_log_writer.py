"""When the writer of event logs sends what: new things at once, text that goes on with its tick, by load.

The tick of these tests is an hour, so that nothing goes out because time has passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import orjson
import pytest
from django.conf import settings

from agentx.redis_client import redis_client
from conversations.events import Delta, Status, Thinking
from conversations.stream import LogWriter, RunLog, log_key

HOUR = 3_600.0
# Only a test that fails waits for so long.
PATIENCE = 20.0

STATUS = Status(phase="composing", label="Composing the answer")


@pytest.fixture
async def writer() -> AsyncIterator[LogWriter]:
    made = LogWriter(url=settings.REDIS_URL, flush_seconds=HOUR)
    yield made
    await made.aclose()


async def _talking(writer: LogWriter) -> RunLog:
    """A log whose first words are out, so that a tick has begun and what goes on waits for its end."""
    run_log = writer.open(run_id=uuid4(), token=uuid4())
    run_log.emit(Delta(text="one "))
    assert await run_log.flushed(timeout=PATIENCE)
    return run_log


def _logged(run_log: RunLog) -> list[tuple[str, str]]:
    """(type, text or phase) of every event that is in Redis."""
    entries = [orjson.loads(fields[b"e"]) for _, fields in redis_client().xrange(log_key(run_log.run_id))]
    return [(event["type"], event["data"].get("text") or event["data"].get("phase")) for event in entries]


async def test_the_first_words_do_not_wait_for_a_tick(writer):
    run_log = await _talking(writer)

    assert _logged(run_log) == [("delta", "one ")]


async def test_what_is_new_in_one_run_goes_out_while_text_of_another_is_gathered(writer):
    talking = await _talking(writer)
    other = writer.open(run_id=uuid4(), token=uuid4())
    talking.emit(Delta(text="two "))

    other.emit(STATUS)

    assert await other.flushed(timeout=PATIENCE)
    assert _logged(other) == [("status", "composing")]
    assert _logged(talking) == [("delta", "one ")]


@pytest.mark.parametrize(
    ("event", "logged"),
    [(STATUS, ("status", "composing")), (Thinking(text="Hm."), ("thinking", "Hm."))],
    ids=["an event", "text of another kind"],
)
async def test_what_is_new_takes_the_text_before_it_along_as_one_event(writer, event, logged):
    run_log = await _talking(writer)
    for word in ("two ", "three ", "four"):
        run_log.emit(Delta(text=word))

    run_log.emit(event)

    assert await run_log.flushed(timeout=PATIENCE)
    assert _logged(run_log) == [("delta", "one "), ("delta", "two three four"), logged]


async def test_text_after_an_event_is_new_again(writer):
    run_log = await _talking(writer)
    run_log.emit(STATUS)
    assert await run_log.flushed(timeout=PATIENCE)

    run_log.emit(Delta(text="two"))

    assert await run_log.flushed(timeout=PATIENCE)
    assert _logged(run_log) == [("delta", "one "), ("status", "composing"), ("delta", "two")]


async def test_a_tick_that_ends_sends_what_every_run_has_gathered():
    writer = LogWriter(url=settings.REDIS_URL, flush_seconds=0.01)
    first, second = await _talking(writer), await _talking(writer)
    for run_log in (first, second):
        run_log.emit(Delta(text="two"))

    flushed = await asyncio.gather(first.flushed(timeout=PATIENCE), second.flushed(timeout=PATIENCE))
    await writer.aclose()

    assert flushed == [True, True]
    assert _logged(first) == _logged(second) == [("delta", "one "), ("delta", "two")]


@pytest.mark.parametrize(
    ("logs", "seconds"),
    [(0, 0.025), (1, 0.025), (16, 0.025), (40, 0.060), (64, 0.096), (67, 0.1), (128, 0.1)],
)
async def test_the_tick_grows_with_the_answers_being_written_and_ends_at_a_tenth_of_a_second(logs, seconds):
    writer = LogWriter(url=settings.REDIS_URL, flush_seconds=0.025)
    tick = writer._tick(logs)
    await writer.aclose()

    assert tick == pytest.approx(seconds)


async def test_a_longer_tick_of_the_operator_s_is_the_least_and_the_most(writer):
    assert (writer._tick(1), writer._tick(1_000)) == (HOUR, HOUR)
