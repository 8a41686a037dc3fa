"""The HTTP reader of streams against servers that are correct in unusual ways, and against those that are not HTTP at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from agentx.llm import http_stream
from agentx.llm.http_stream import MOST_OVERHEAD, MOST_WAITING, Deadlines, StreamClient
from tests.agentx.llm.raw_server import RawServer, raw_server

# Only a test that fails waits for so long.
PATIENCE = 10.0

# What asyncio takes off a socket in one go.
ONE_READ = 256 * 1024

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfive."
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n1;ext=1\r\n.\r\n0\r\n\r\n"
TRAILED = CHUNKED.removesuffix(b"\r\n") + b"X-Checksum: 17\r\nContent-Type: text/html\r\n\r\n"


@asynccontextmanager
async def connected(server: RawServer, *, max_connections: int = 4) -> AsyncIterator[StreamClient]:
    deadlines = Deadlines(connect=PATIENCE, read=PATIENCE)
    client = StreamClient(base_url=server.base_url, deadlines=deadlines, max_connections=max_connections)
    try:
        yield client
    finally:
        await client.aclose()


async def _read(client: StreamClient, body: bytes = b"{}") -> tuple[int, dict[str, str], bytes]:
    """Status, headers and the whole body of the answer to one request."""
    async with client.post("/ask", body=body, headers={"X-Number": "1"}) as response:
        text = b"".join([chunk async for chunk in response.chunks()])
        return response.status, response.headers, text


async def _fail(client: StreamClient) -> tuple[bytes, httpx2.TransportError]:
    """The bytes of the body before the failure, and the failure."""
    text = b""
    with pytest.raises(httpx2.TransportError) as caught:
        async with client.post("/ask", body=b"{}", headers={}) as response:
            async for chunk in response.chunks():
                text += chunk
    return text, caught.value


async def test_requests_one_after_another_share_a_connection_and_are_written_as_given():
    async with raw_server(PLAIN, CHUNKED, PLAIN) as server, connected(server) as client:
        answers = [(await _read(client, body))[2] for body in (b"one", b"", b"{}")]

    host = server.base_url.removeprefix("http://").removesuffix("/v1")
    assert (answers, server.connections) == ([b"five.", b"four.", b"five."], 1)
    assert (
        server.requests[0]
        == (
            f"POST /v1/ask HTTP/1.1\r\nHost: {host}\r\nX-Number: 1\r\n"
            "Accept-Encoding: identity\r\nContent-Length: 3\r\n\r\none"
        ).encode()
    )


async def test_signs_that_an_answer_will_follow_are_no_answer():
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX-Early: 1\r\nContent-Type: text/html\r\n\r\n"
    async with raw_server(early + PLAIN, CHUNKED) as server, connected(server) as client:
        first, second = await _read(client), await _read(client)

    assert first == (200, {"content-length": "5"}, b"five.")
    assert (second[2], server.connections) == (b"four.", 1)


async def test_a_body_without_a_length_ends_with_its_connection_which_serves_nobody_else():
    bare = b"HTTP/1.1 200 OK\r\nX-Kind: bare\r\n\r\none two"
    answers = iter([bare, PLAIN])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_request(reader)
        writer.write(next(answers))

    async with raw_server(serve=serve) as server, connected(server) as client:
        first, second = await _read(client), await _read(client)

    assert first == (200, {"x-kind": "bare"}, b"one two")
    assert (second[2], server.connections) == (b"five.", 2)


async def test_what_trails_a_chunked_body_changes_nothing():
    async with raw_server(TRAILED, PLAIN) as server, connected(server) as client:
        first, second = await _read(client), await _read(client)

    assert first == (200, {"transfer-encoding": "chunked"}, b"four.")
    assert (second[2], server.connections) == (b"five.", 1)


@pytest.mark.parametrize("answer", [PLAIN, CHUNKED, TRAILED], ids=["length", "chunked", "trailers"])
async def test_an_answer_may_come_byte_by_byte(answer):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await server.read_request(reader):
            for place in range(len(answer)):
                writer.write(answer[place : place + 1])
                await asyncio.sleep(0)

    async with raw_server(serve=serve) as server, connected(server) as client:
        bodies = [(await _read(client))[2] for _ in range(2)]

    assert (bodies[0], bodies[0] == bodies[1], server.connections) == (
        b"five." if answer is PLAIN else b"four.",
        True,
        1,
    )


async def test_leaving_a_body_that_has_no_end_in_sight_ends_the_connection(monkeypatch):
    monkeypatch.setattr(http_stream, "DRAIN_SECONDS", 0.01)
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n"
    async with raw_server(endless, PLAIN) as server, connected(server) as client:
        async with client.post("/ask", body=b"", headers={}) as response:
            assert await anext(response.chunks()) == b"four"
        await asyncio.wait_for(server.left.wait(), PATIENCE)

        assert ((await _read(client))[2], server.connections) == (b"five.", 2)


async def test_an_error_of_the_reader_ends_the_connection_without_waiting_for_the_rest():
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n"
    async with raw_server(endless, PLAIN) as server, connected(server) as client:
        with pytest.raises(KeyError):
            async with client.post("/ask", body=b"", headers={}):
                raise KeyError
        await asyncio.wait_for(server.left.wait(), PATIENCE)

        assert ((await _read(client))[2], server.connections) == (b"five.", 2)


async def test_leaving_a_body_whose_end_is_near_keeps_the_connection():
    """As a reader of events does, who has seen the last of them."""
    seen = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await server.read_request(reader):
            writer.write(CHUNKED.removesuffix(b"0\r\n\r\n"))
            await seen.wait()
            writer.write(b"0\r\n\r\n")

    async with raw_server(serve=serve) as server, connected(server) as client:
        async with client.post("/ask", body=b"", headers={}) as response:
            assert await anext(response.chunks()) == b"four."
            seen.set()

        assert ((await _read(client))[2], server.connections) == (b"four.", 1)


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_connection_that_breaks_behind_what_was_read_is_no_failure(how):
    """Whoever leaves has all that was wanted."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_request(reader)
        writer.write(CHUNKED.removesuffix(b"0\r\n\r\n"))
        await read.wait()
        if how == "reset":
            writer.transport.abort()

    read = asyncio.Event()
    async with (
        raw_server(serve=serve) as server,
        connected(server) as client,
        client.post("/ask", body=b"", headers={}) as response,
    ):
        text = await anext(response.chunks())
        read.set()

    assert text == b"four."


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nfive.",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n\x00\x00",
    ],
    ids=["ssh", "tls alert", "status", "length", "two lengths", "header", "upgrade"],
)
async def test_what_is_not_http_is_a_protocol_error_and_its_connection_ends(garbage, caplog):
    async with raw_server(garbage, PLAIN) as server, connected(server, max_connections=1) as client:
        text, error = await _fail(client)
        await asyncio.wait_for(server.left.wait(), PATIENCE)
        after = await _read(client)

    assert (text, type(error)) == (b"", httpx2.RemoteProtocolError)
    assert (after[2], server.connections) == (b"five.", 2)
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_garbage_behind_the_head_comes_behind_what_was_good():
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\nzz\r\n"
    async with raw_server(answer) as server, connected(server) as client:
        text, error = await _fail(client)

    assert (text, type(error)) == (b"four", httpx2.RemoteProtocolError)


@pytest.mark.parametrize("length", [b"Content-Length: 9", b"Transfer-Encoding: chunked"])
async def test_a_body_that_ends_before_its_length_is_a_protocol_error_behind_what_came(length):
    body = b"five." if b"Content" in length else b"5\r\nfive.\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + body)

    async with raw_server(serve=serve) as server, connected(server) as client:
        text, error = await _fail(client)

    assert (text, type(error)) == (b"five.", httpx2.RemoteProtocolError)


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n"),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"and more"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (TRAILED.removesuffix(b"\r\n"), b"X-More: and more\r\n"),
        (TRAILED.removesuffix(b"\r\n") + b"X-Long: ", b"and more"),
    ],
    ids=["headers", "one header", "signs", "trailers", "one trailer"],
)
async def test_headers_without_an_end_are_a_protocol_error(start, piece):
    """And take no memory without bound: the server can write little more than is allowed."""
    written = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await server.read_request(reader)
        writer.write(start)
        while written < 40_000_000:
            writer.write(piece * 1_000)
            written += len(piece) * 1_000
            await writer.drain()

    async with raw_server(serve=serve) as server, connected(server) as client:
        _, error = await _fail(client)
        await asyncio.wait_for(server.left.wait(), PATIENCE)

    assert type(error) is httpx2.RemoteProtocolError
    assert MOST_OVERHEAD < written < 40_000_000


async def test_a_head_of_many_headers_is_read():
    names = [f"x-{number}" for number in range(1_000)]
    head = "".join(f"{name}: {'v' * 40}\r\n" for name in names).encode()
    async with (
        raw_server(b"HTTP/1.1 200 OK\r\n" + head + PLAIN.split(b"\r\n", 1)[1]) as server,
        connected(server) as client,
    ):
        _, headers, text = await _read(client)

    assert (set(names) <= set(headers), text) == (True, b"five.")


async def test_a_slow_reader_leaves_what_it_does_not_read_to_the_network():
    size, written = 30_000_000, 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await server.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while written < size:
            writer.write(b"x" * 100_000)
            written += 100_000
            await writer.drain()

    async with (
        raw_server(serve=serve) as server,
        connected(server) as client,
        client.post("/ask", body=b"", headers={}) as response,
    ):
        connection = response._connection
        assert connection._transport is not None
        async with asyncio.timeout(PATIENCE):
            while connection._transport.is_reading():
                await asyncio.sleep(0)
        waiting, sent = connection._size, written
        read = sum([len(chunk) async for chunk in response.chunks()])

    assert MOST_WAITING < waiting <= MOST_WAITING + ONE_READ
    assert sent < size == read


async def test_a_kept_connection_that_the_server_has_closed_is_not_used_again():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_request(reader)
        writer.write(PLAIN)

    async with raw_server(serve=serve) as server, connected(server) as client:
        await _read(client)
        async with asyncio.timeout(PATIENCE):
            while client._idle[0].is_open:
                await asyncio.sleep(0)

        assert ((await _read(client))[2], server.connections) == (b"five.", 2)


async def test_a_kept_connection_that_ends_with_the_request_is_told_as_broken_off():
    """Whether the server has begun with it cannot be known: it is for the turn to ask again."""
    async with raw_server(PLAIN, b"", PLAIN) as server, connected(server, max_connections=1) as client:
        await _read(client)
        _, error = await _fail(client)

        assert type(error) is httpx2.RemoteProtocolError
        assert ((await _read(client))[2], server.connections) == (b"five.", 2)


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
    ids=["said", "old"],
)
async def test_a_connection_that_is_not_to_be_kept_is_not(answer):
    async with raw_server(answer, PLAIN) as server, connected(server) as client:
        bodies = [(await _read(client))[2] for _ in range(2)]

    assert (bodies, server.connections) == ([b"five.", b"five."], 2)


@pytest.mark.parametrize("stray", [b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstray.", b"garbage"])
async def test_what_comes_behind_an_answer_belongs_to_no_answer(stray):
    """A server that says more than it was asked for is not asked again on that connection."""
    async with raw_server(PLAIN + stray, PLAIN) as server, connected(server) as client:
        bodies = [(await _read(client))[2] for _ in range(2)]

    assert (bodies, server.connections) == ([b"five.", b"five."], 2)


async def test_what_comes_while_nothing_was_asked_ends_the_kept_connection():
    late = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await server.read_request(reader):
            writer.write(PLAIN)
            await late.wait()
            writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()

    async with raw_server(serve=serve) as server, connected(server) as client:
        await _read(client)
        late.set()
        async with asyncio.timeout(PATIENCE):
            while client._idle[0].is_reusable:
                await asyncio.sleep(0)

        assert ((await _read(client))[0], server.connections) == (200, 2)


async def test_no_more_connections_than_allowed_and_none_lost_to_failures():
    release = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await server.read_request(reader):
            if len(server.requests) > 2:
                await release.wait()
                writer.write(PLAIN)
            else:
                return

    async with raw_server(serve=serve) as server, connected(server, max_connections=2) as client:
        for _ in range(2):
            await _fail(client)
        reading = [asyncio.create_task(_read(client)) for _ in range(5)]
        async with asyncio.timeout(PATIENCE):
            while len(server.requests) < 4:
                await asyncio.sleep(0)
        open_at_once = server.connections - 2
        release.set()
        answers = await asyncio.gather(*reading)

    assert (open_at_once, server.connections) == (2, 4)
    assert [text for _, _, text in answers] == [b"five."] * 5
