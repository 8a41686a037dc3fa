"""Server-sent events and waiting, with a real runner and a scripted model."""

from __future__ import annotations

import asyncio
import json

import pytest
from django.db import connection

from agentx.threads import in_db_thread
from conversations.api import streams
from conversations.services.cancel import run_cancel
from conversations.services.conversations import conversation_create

pytestmark = pytest.mark.django_db(transaction=True)
JSON = "application/json"


@pytest.fixture
def conversation(transactional_db, user):
    return conversation_create(user_id=user.pk)


@pytest.fixture
def http(transactional_db, async_client_for, user):
    return async_client_for(user)


async def _read(response) -> tuple[list[dict], bytes]:
    """The events of a stream as dictionaries of their lines, and the raw bytes."""
    raw = b"".join([chunk async for chunk in response.streaming_content])
    await in_db_thread(lambda: None)
    blocks = [block for block in raw.decode().split("\n\n") if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks], raw


async def test_stream_true_answers_with_the_whole_run(runner, http, conversation):
    response = await http.post(
        f"/api/conversations/{conversation.id}/turns?stream=true", {"content": "hello"}, content_type=JSON
    )
    events, raw = await asyncio.wait_for(_read(response), 20)

    assert response.status_code == 200
    assert response["Content-Type"] == "text/event-stream; charset=utf-8"
    assert (response["Cache-Control"], response["X-Accel-Buffering"]) == ("no-cache", "no")
    assert raw.startswith(b": \n\n")
    assert (events[0]["event"], "id" in events[0]) == ("attached", False)
    assert events[1]["event"] == "run_started"
    assert events[-1]["event"] == "close"
    assert [int(event["id"]) for event in events[1:]] == list(range(1, len(events)))
    for event in events:
        assert json.loads(event["data"])["type"] == event["event"]


async def test_wait_true_answers_with_run_message_and_answer(runner, http, conversation):
    response = await asyncio.wait_for(
        http.post(
            f"/api/conversations/{conversation.id}/turns?wait=true", {"content": "hello"}, content_type=JSON
        ),
        20,
    )

    body = json.loads(response.content)
    assert response.status_code == 200
    assert body["run"]["status"] == "completed"
    assert (body["message"]["seq"], body["message"]["content"]) == (1, "hello")
    assert (body["answer"]["seq"], body["answer"]["role"], body["answer"]["run_id"]) == (
        2,
        "assistant",
        body["run"]["id"],
    )


async def test_wait_gives_up_with_202_and_the_run_goes_on(http, conversation, monkeypatch):
    monkeypatch.setattr(streams, "WAIT_SECONDS", 0.2)

    response = await http.post(
        f"/api/conversations/{conversation.id}/turns?wait=true", {"content": "hello"}, content_type=JSON
    )

    assert response.status_code == 202
    assert json.loads(response.content)["run"]["status"] == "queued"


async def test_stream_and_wait_together_are_a_400(http, conversation):
    path = f"/api/conversations/{conversation.id}/turns?stream=true&wait=true"

    assert (await http.post(path, {"content": "hello"}, content_type=JSON)).status_code == 400


async def test_last_event_id_goes_on_after_it(runner, http, conversation):
    done = await http.post(
        f"/api/conversations/{conversation.id}/turns?wait=true", {"content": "hello"}, content_type=JSON
    )
    path = f"/api/runs/{json.loads(done.content)['run']['id']}/events"

    whole, _ = await _read(await http.get(path))
    by_header, _ = await _read(await http.get(path, headers={"Last-Event-ID": "2"}))
    by_query, _ = await _read(await http.get(f"{path}?after=2"))
    header_wins, _ = await _read(await http.get(f"{path}?after=0", headers={"Last-Event-ID": "2"}))

    assert by_header[1:] == by_query[1:] == header_wins[1:] == whole[3:]
    assert by_header[1]["id"] == "3"


async def test_a_listener_with_everything_hears_that_the_run_is_over(runner, http, conversation):
    done = await http.post(
        f"/api/conversations/{conversation.id}/turns?wait=true", {"content": "hello"}, content_type=JSON
    )
    run = json.loads(done.content)["run"]

    events, _ = await _read(await http.get(f"/api/runs/{run['id']}/events?after={run['final_seq']}"))

    assert [(event["event"], "id" in event) for event in events] == [
        ("attached", False),
        ("run_missing", False),
    ]


@pytest.mark.parametrize("query", ["after=-1", "after=abc", "after=99999999999", "since=1"])
async def test_b62_a_bad_position_is_a_400(http, user, conversation, query):
    run_id = await _queued(http, conversation)

    assert (await http.get(f"/api/runs/{run_id}/events?{query}")).status_code == 400


@pytest.mark.parametrize("header", ["abc", "-1", "1.5", "0x10", "99999999999", "²", " "])
async def test_b63_a_last_event_id_with_junk_is_a_400(http, conversation, header):
    run_id = await _queued(http, conversation)

    response = await http.get(f"/api/runs/{run_id}/events", headers={"Last-Event-ID": header})

    assert response.status_code == 400
    assert list(json.loads(response.content)["errors"]) == ["Last-Event-ID"]


async def test_b62_a_position_beyond_the_head_is_reset(http, conversation, user):
    run_id = await _queued(http, conversation)

    response = await http.get(f"/api/runs/{run_id}/events?after=1000")
    read = asyncio.create_task(_read(response))
    await asyncio.sleep(0.3)
    await in_db_thread(run_cancel, user_id=user.pk, run_id=run_id)
    events, _ = await asyncio.wait_for(read, 20)

    assert events[-1]["event"] in ("close", "run_missing")


async def test_silence_is_filled_with_comments(http, conversation, monkeypatch, user):
    monkeypatch.setattr(streams, "COMMENT_SECONDS", 0.05)
    run_id = await _queued(http, conversation)

    response = await http.get(f"/api/runs/{run_id}/events")
    read = asyncio.create_task(_read(response))
    await asyncio.sleep(0.4)
    await in_db_thread(run_cancel, user_id=user.pk, run_id=run_id)
    events, raw = await asyncio.wait_for(read, 20)

    assert events[-1]["event"] == "close"
    assert raw.count(b": \n\n") >= 3


async def test_a_reader_that_leaves_takes_its_listener_along(http, conversation):
    from conversations.services.attach import log_hub

    run_id = await _queued(http, conversation)
    response = await http.get(f"/api/runs/{run_id}/events")
    chunks = aiter(response.streaming_content)
    for _ in range(2):
        await anext(chunks)
    follower = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0.3)
    assert run_id in log_hub()._listeners

    follower.cancel()
    await asyncio.gather(follower, return_exceptions=True)
    await chunks.aclose()

    assert run_id not in log_hub()._listeners


async def test_p19_a_reader_that_does_not_read_is_cut_off(http, conversation, settings):
    settings.SLOW_CLIENT_SECONDS = 0.1
    run_id = await _queued(http, conversation)
    response = await http.get(f"/api/runs/{run_id}/events")

    async def stuck() -> None:
        async for _chunk in response.streaming_content:
            await asyncio.sleep(60)  # as a server does whose send buffer is full

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.create_task(stuck()), 20)


def test_the_connection_is_given_back_before_streaming(transactional_db):
    connection.ensure_connection()

    streams.release_connection()

    assert connection.connection is None


async def _queued(http, conversation) -> str:
    response = await http.post(
        f"/api/conversations/{conversation.id}/turns", {"content": "hello"}, content_type=JSON
    )
    return json.loads(response.content)["run"]["id"]
