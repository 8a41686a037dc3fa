"""The event stream over both transports, whole, against its golden record and its published schema.

After a wanted change, ``AGENTX_UPDATE_GOLDEN=1`` writes the record again; read the difference before committing it.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from uuid import uuid4

import jsonschema
import pytest
import websockets

from tests.scripted_model import scripts
from tests.stack import Client, Stack, answer_text

pytestmark = pytest.mark.flow

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "turn_events.json"
QUESTION = "[[scripted-reasoning-n6]]"


def _socket(stack: Stack, conversation: str, client: Client | None, **headers: str):
    url = f"{stack.url.replace('http', 'ws')}/ws/conversations/{conversation}/"
    given = dict(headers)
    if client is not None:
        given |= client.headers
    return websockets.connect(url, additional_headers=given, origin=stack.url)  # type: ignore[arg-type]


async def _say(socket, content: str, **fields) -> list[dict]:
    """Send a message and collect every frame until the run closes."""
    await socket.send(json.dumps({"type": "send", "client_key": str(uuid4()), "content": content, **fields}))
    return await _until_close(socket)


async def _until_close(socket) -> list[dict]:
    frames = []
    while not frames or frames[-1]["type"] not in ("close", "run_missing", "refused"):
        frames.append(json.loads(await asyncio.wait_for(socket.recv(), 20)))
    return frames


def _normalised(events: list[dict]) -> list[dict]:
    """Events without what differs between two runs: ids, times, and how deltas happened to be gathered."""
    out: list[dict] = []
    for event in events:
        event = json.loads(json.dumps(event))
        event.pop("seq", None)
        if out and event["type"] in ("delta", "thinking") and out[-1]["type"] == event["type"]:
            out[-1]["data"]["text"] += event["data"]["text"]
            continue
        out.append(event)
    return json.loads(json.dumps(out), object_hook=_blank)


def _blank(value: dict) -> dict:
    changing = {
        "run_id",
        "conversation_id",
        "id",
        "epoch",
        "created_at",
        "queued_ms",
        "first_token_ms",
        "total_ms",
    }
    changing |= {
        "tokenizer",
        "used",
        "asked",
        "granted",
    }  # the counts depend on the tokenizer that can be had
    return {key: "…" if key in changing and item is not None else item for key, item in value.items()}


def test_golden_both_transports_send_exactly_the_recorded_events(stack: Stack, client: Client):
    """RUN-28, RUN-13, CTX-10: each phase once, in its order."""
    conversation = client.conversation()
    sse = client.events(client.accepted(conversation, QUESTION))

    async def over_socket() -> list[dict]:
        async with _socket(stack, client.conversation(), client) as socket:
            return await _say(socket, QUESTION)

    ws = asyncio.run(over_socket())

    if os.environ.get("AGENTX_UPDATE_GOLDEN"):
        GOLDEN.write_text(
            json.dumps(_normalised([e for e in sse if "seq" in e]), indent=1, ensure_ascii=False) + "\n"
        )
    golden = json.loads(GOLDEN.read_text())
    assert _normalised([e for e in sse if "seq" in e]) == golden
    assert _normalised([e for e in ws if "seq" in e]) == golden
    assert [f["type"] for f in ws if "seq" not in f] == ["accepted", "attached"]


def test_run_02_every_event_and_frame_validates_against_the_published_schema(stack: Stack, client: Client):
    """RUN-02."""
    schema = client.http.get("/api/schema/?format=json").json()
    components = {"components": schema["components"]}

    async def collect() -> list[dict]:
        async with _socket(stack, client.conversation(), client) as socket:
            await socket.send(json.dumps({"type": "ping"}))
            frames = [json.loads(await socket.recv())]
            frames += await _say(socket, QUESTION)
            frames += await _say(socket, "[[scripted-stall-n3]]")
            await socket.send(json.dumps({"type": "nonsense"}))
            frames.append(json.loads(await socket.recv()))
            return frames

    frames = asyncio.run(collect())

    kinds = {frame["type"] for frame in frames}
    assert kinds >= {
        "pong",
        "accepted",
        "attached",
        "refused",
        "run_started",
        "delta",
        "thinking",
        "done",
        "error",
        "close",
    }
    for frame in frames:
        union = "RunEvent" if "seq" in frame else "ServerFrame"
        jsonschema.validate(frame, {"$ref": f"#/components/schemas/{union}", **components})


def test_p1_a_resend_over_the_socket_gives_the_same_run(stack: Stack, client: Client):
    key = str(uuid4())

    async def twice() -> tuple[dict, dict]:
        async with _socket(stack, client.conversation(), client) as socket:
            first = await _say(socket, "hello", client_key=key)
        async with _socket(stack, first[0]["run"]["conversation_id"], client) as socket:
            second = await _say(socket, "hello", client_key=key)
        return first[0], second[0]

    first, second = asyncio.run(twice())

    assert (first["created"], second["created"]) == (True, False)
    assert first["run"]["id"] == second["run"]["id"]


def test_another_tab_sees_the_run_that_this_one_started(stack: Stack, client: Client):
    conversation = client.conversation()

    async def watch() -> list[dict]:
        async with _socket(stack, conversation, client) as socket:
            await socket.send(json.dumps({"type": "ping"}))
            await socket.recv()
            await asyncio.to_thread(client.accepted, conversation, "[[scripted-n5]]")
            return await _until_close(socket)

    frames = asyncio.run(watch())

    assert frames[0]["type"] == "attached"
    assert answer_text(frames) == scripts.word_text(5)


def test_every_open_page_is_told_of_a_new_title(stack: Stack, client: Client):
    conversation = client.conversation()

    async def watch() -> dict:
        async with _socket(stack, conversation, client) as socket:
            await socket.send(json.dumps({"type": "ping"}))
            await socket.recv()
            await asyncio.to_thread(
                client.http.patch, f"/api/conversations/{conversation}", json={"title": "Rent in Bergen"}
            )
            return json.loads(await asyncio.wait_for(socket.recv(), 20))

    assert asyncio.run(watch()) == {"type": "titled", "title": "Rent in Bergen"}


def test_reload_attach_replays_and_goes_on(stack: Stack, client: Client):
    """RUN-04."""
    conversation = client.conversation()
    run_id = client.accepted(conversation, "[[scripted-n60-tps60]]")

    async def reload() -> list[dict]:
        async with _socket(stack, conversation, client) as socket:
            await socket.send(json.dumps({"type": "attach", "run_id": run_id, "after": 0}))
            return await _until_close(socket)

    frames = asyncio.run(reload())

    events = [frame for frame in frames if "seq" in frame]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert answer_text(events) == scripts.word_text(60)


def test_p13_stop_over_the_socket_is_acknowledged_and_keeps_the_text(stack: Stack, client: Client):
    """RUN-06."""
    conversation = client.conversation()

    async def stop() -> list[dict]:
        async with _socket(stack, conversation, client) as socket:
            await socket.send(
                json.dumps({"type": "send", "client_key": "k", "content": "[[scripted-n600-tps30]]"})
            )
            frames: list[dict] = []
            while sum(frame["type"] == "delta" for frame in frames) < 5:
                frames.append(json.loads(await socket.recv()))
            await socket.send(json.dumps({"type": "stop", "run_id": frames[0]["run"]["id"]}))
            return frames + await _until_close(socket)

    frames = asyncio.run(stop())

    kinds = [frame["type"] for frame in frames]
    assert kinds.count("stopping") == 1
    assert kinds[-2:] == ["done", "close"]
    stored = client.messages(conversation)[1]
    assert (stored["status"], stored["content"]) == ("stopped", answer_text(frames))


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("not json", "invalid_command"),
        ("[1]", "invalid_command"),
        ('{"type": "nonsense"}', "invalid_command"),
        ('{"type": "send", "client_key": "k", "content": "   "}', "invalid_command"),
        ('{"type": "send", "client_key": "k", "content": "a\\u0000b"}', "invalid_command"),
        ('{"type": "send", "client_key": "k", "content": "x", "extra": 1}', "invalid_command"),
        ('{"type": "send", "content": "x"}', "invalid_command"),
        ('{"type": "attach", "run_id": "abc"}', "invalid_command"),
        (
            '{"type": "attach", "run_id": "00000000-0000-4000-8000-000000000000", "after": -1}',
            "invalid_command",
        ),
        ('{"type": "stop", "run_id": "00000000-0000-4000-8000-000000000000"}', "not_found"),
        ('{"type": "send", "client_key": "k", "content": "x", "expected_head": 7}', "head_moved"),
    ],
)
def test_b70_b71_rubbish_is_refused_in_words_and_the_socket_lives(stack: Stack, client: Client, frame, code):
    conversation = client.conversation()

    async def send() -> tuple[dict, dict]:
        async with _socket(stack, conversation, client) as socket:
            await socket.send(frame)
            refused = json.loads(await asyncio.wait_for(socket.recv(), 10))
            await socket.send('{"type": "ping"}')
            return refused, json.loads(await asyncio.wait_for(socket.recv(), 10))

    refused, pong = asyncio.run(send())

    assert (refused["type"], refused["code"]) == ("refused", code)
    assert refused["message"]
    assert pong["type"] == "pong"
    assert client.messages(conversation) == []


def _close_code(connecting) -> int | str:
    async def connect() -> int | str:
        try:
            async with connecting as socket:
                await asyncio.wait_for(socket.recv(), 10)
        except websockets.ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 0
        except websockets.InvalidStatus as refused:
            return f"http {refused.response.status_code}"
        return "open"

    return asyncio.run(connect())


def test_b66_an_anonymous_socket_is_closed_with_4401(stack: Stack, client: Client):
    assert _close_code(_socket(stack, client.conversation(), None)) == 4401


def test_p17_a_socket_on_another_users_conversation_is_closed_with_4404(stack: Stack, client: Client):
    """OPS-04."""
    assert _close_code(_socket(stack, client.conversation(), stack.client())) == 4404


def test_b67_an_unknown_path_is_closed_with_4404(stack: Stack, client: Client):
    connecting = websockets.connect(f"{stack.url.replace('http', 'ws')}/ws/nothing/", origin=stack.url)  # type: ignore[arg-type]

    assert _close_code(connecting) == 4404


@pytest.mark.parametrize("origin", ["http://evil.example", None])
def test_b64_b65_a_foreign_or_missing_origin_is_refused(stack: Stack, client: Client, origin):
    url = f"{stack.url.replace('http', 'ws')}/ws/conversations/{client.conversation()}/"

    assert (
        _close_code(websockets.connect(url, additional_headers=client.headers, origin=origin)) == "http 403"
    )


def test_b72_a_flood_of_frames_closes_the_socket(stack: Stack, client: Client):
    async def flood() -> int:
        async with _socket(stack, client.conversation(), client) as socket:
            try:
                for _ in range(1000):
                    await socket.send('{"type": "ping"}')
                while True:
                    await asyncio.wait_for(socket.recv(), 10)
            except websockets.ConnectionClosed as closed:
                return closed.rcvd.code if closed.rcvd else 0

    assert asyncio.run(flood()) == 4429


def test_b68_an_oversized_frame_closes_the_socket_with_1009(stack: Stack, client: Client):
    async def send() -> int:
        async with _socket(stack, client.conversation(), client) as socket:
            try:
                await socket.send("x" * 2_000_000)
                await asyncio.wait_for(socket.recv(), 10)
            except websockets.ConnectionClosed as closed:
                return closed.rcvd.code if closed.rcvd else 0
        return 0

    assert asyncio.run(send()) == 1009


def test_a_turn_from_the_terminal_streams_and_prints_the_conversation(stack: Stack, client: Client):
    printed = stack.manage("chat", "[[scripted-n5]]", "--username", client.username)

    assert printed == scripts.word_text(5) + "\n"


def test_a_turn_from_the_terminal_as_json_is_the_event_stream(stack: Stack, client: Client):
    conversation = client.conversation()

    printed = stack.manage(
        "chat", "[[scripted-n5]]", "--username", client.username, "--conversation", conversation, "--json"
    )

    events = [json.loads(line) for line in printed.splitlines()]
    assert [event["type"] for event in events][-1] == "close"
    assert answer_text(events) == client.messages(conversation)[1]["content"]


def test_a_message_for_a_turn_at_work_is_told_to_every_socket_and_answered_next(stack: Stack, client: Client):
    """RUN-07: what no step takes in is the next turn, which every socket follows by itself."""

    async def steer() -> tuple[list[dict], list[dict]]:
        conversation = client.conversation()
        async with (
            _socket(stack, conversation, client) as mine,
            _socket(stack, conversation, client) as other,
        ):
            await mine.send(
                json.dumps({"type": "send", "client_key": "a", "content": "[[scripted-n12-tps8]]"})
            )
            frames = [json.loads(await asyncio.wait_for(mine.recv(), 20))]
            while frames[-1]["type"] != "delta":
                frames.append(json.loads(await asyncio.wait_for(mine.recv(), 20)))
            run = frames[0]["run"]["id"]
            await mine.send(
                json.dumps({"type": "steer", "run_id": run, "client_key": "b", "content": "and briefly"})
            )
            frames += [*await _until_close(mine), *await _until_close(mine)]
            return frames, [*await _until_close(other), *await _until_close(other)]

    mine, other = asyncio.run(steer())

    [answer] = [frame for frame in mine if frame["type"] == "steering"]
    assert (answer["client_key"], answer["steer"]["status"], answer["withdrawn"]) == ("b", "waiting", False)
    for frames in (mine, other):
        [waiting] = [frame for frame in frames if frame["type"] == "waiting"]
        assert [steer["content"] for steer in waiting["steers"]] == ["and briefly"]
        assert [frame["type"] for frame in frames].count("close") == 2


def test_a_waiting_message_is_told_on_attach_and_can_be_withdrawn(stack: Stack, client: Client):
    async def withdraw() -> list[dict]:
        conversation = client.conversation()
        run_id = client.accepted(conversation, "[[scripted-n12-tps8]]")
        answer = client.http.post(f"/api/runs/{run_id}/steers", json={"content": "never mind"})
        made = answer.json()
        async with _socket(stack, conversation, client) as socket:
            await socket.send(json.dumps({"type": "attach", "run_id": run_id, "after": 0}))
            frames = [json.loads(await asyncio.wait_for(socket.recv(), 20))]
            while frames[-1]["type"] != "waiting":
                frames.append(json.loads(await asyncio.wait_for(socket.recv(), 20)))
            await socket.send(json.dumps({"type": "withdraw", "steer_id": made["id"]}))
            return [frames[-1], *await _until_close(socket)]

    frames = asyncio.run(withdraw())

    told = [frame for frame in frames if frame["type"] == "waiting"]
    assert [[steer["content"] for steer in frame["steers"]] for frame in told] == [["never mind"], []]
    assert [frame["withdrawn"] for frame in frames if frame["type"] == "steering"] == [True]
