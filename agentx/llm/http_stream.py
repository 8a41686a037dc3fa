"""Reading a streamed HTTP answer at the cost of its parser: one request, its status, and the bytes of its body as they come.

A general client spends most of its time on layers that a stream of tokens has no use for; with 64 answers at once that was
60 % of a runner (ADR 12). The parser is httptools', which serves uvicorn; around it is only what a request to a provider
needs: TLS, deadlines, a limit of connections, and keeping them for the next request. No proxy, no redirects, no cookies.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import httpx2

from agentx.llm.tls import tls_context

# A reader that is slower than its provider lets so many bytes wait before nothing more is taken off the socket.
MOST_WAITING = 1_000_000
# Idle connections kept for the next call; more than this many turns rarely begin within the same few seconds.
MOST_IDLE = 32
# The body of an error is read for its code, which stands at its beginning.
MOST_ERROR_BYTES = 100_000
# Heads and trailers, and whatever else is no body, between two pieces of a body; httpcore allows as much. The parser has no
# limit of its own and keeps a header until its end.
MOST_OVERHEAD = 100_000
# A finished answer is read to its end, since only then its connection serves the next one; not for long.
DRAIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds: for a connection to be made, and of silence while somebody waits for bytes."""

    connect: float
    read: float


class StreamClient:
    """Requests to one endpoint, at most ``max_connections`` at a time. One per process and event loop."""

    def __init__(self, *, base_url: str, deadlines: Deadlines, max_connections: int) -> None:
        parts = urlsplit(base_url)
        self._host, self._path = parts.hostname or "", parts.path.rstrip("/")
        self._tls = tls_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        self._authority = parts.netloc.rsplit("@", 1)[-1]
        self._deadlines = deadlines
        self._room = asyncio.Semaphore(max_connections)
        self._idle: list[_Connection] = []

    @asynccontextmanager
    async def post(
        self, path: str, *, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[StreamResponse]:
        """The answer, once its head has come. Leaving the context before its end closes the connection.

        Raises ``httpx2.TransportError``: what an ordinary client would have raised.
        """
        async with self._room:
            connection = self._take_idle() or await self._connect()
            try:
                connection.send(self._request(path, body, headers))
                await connection.head()
                yield StreamResponse(connection)
                # Whoever leaves has what was wanted: a connection that breaks now is only not kept.
                with contextlib.suppress(TimeoutError, httpx2.TransportError):
                    async with asyncio.timeout(DRAIN_SECONDS):
                        while await connection.body():
                            pass
            finally:
                self._give_back(connection)

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable:
                return connection
            connection.close()
        return None

    def _give_back(self, connection: _Connection) -> None:
        if connection.is_reusable and len(self._idle) < MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._deadlines.connect):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._deadlines.read),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("no connection in time") from error
        except OSError as error:  # a failed TLS handshake is one too
            raise httpx2.ConnectError("no connection") from error
        return connection

    def _request(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        lines = [f"POST {self._path}{path} HTTP/1.1", f"Host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["Accept-Encoding: identity", f"Content-Length: {len(body)}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + body


class StreamResponse:
    """``status``, ``headers`` (names in lower case) and the bytes of the body."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self.status = connection.status
        self.headers = connection.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises ``httpx2.TransportError`` behind all that came before the failure."""
        while chunk := await self._connection.body():
            yield chunk

    async def start_of_body(self) -> bytes:
        """As much of the body as an error is read for."""
        body = b""
        while len(body) < MOST_ERROR_BYTES and (chunk := await self._connection.body()):
            body += chunk
        return body[:MOST_ERROR_BYTES]


class _Connection(asyncio.Protocol):
    """One connection: bytes go through the parser into ``_waiting`` and from there to the one who reads."""

    def __init__(self, read_deadline: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._read_deadline = read_deadline
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waits_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._begin()

    def _begin(self) -> None:
        # Untyped: httptools comes without annotations.
        self._parser: Any = cast("Any", httptools).HttpResponseParser(self)
        self.status = 0
        self.headers: dict[str, str] = {}
        self._waiting: list[bytes] = []
        self._size = self._overhead = 0
        self._has_head = self._is_whole = self._keeps = False
        self._error: httpx2.TransportError | None = None

    # ---- for the client ----------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_reusable(self) -> bool:
        return self.is_open and self._is_whole and self._keeps

    def send(self, request: bytes) -> None:
        self._begin()
        assert self._transport is not None, "a connection is handed out once it is made"
        self._transport.write(request)

    async def head(self) -> None:
        """Wait for status and headers. Raises ``httpx2.TransportError``."""
        while not self._has_head:
            await self._wait()

    async def body(self) -> bytes:
        """What has come of the body since the last call; empty at its end. Raises ``httpx2.TransportError``."""
        while not self._waiting:
            if self._is_whole:
                return b""
            await self._wait()
        chunk = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
        self._waiting.clear()
        if self._size > MOST_WAITING and self._transport is not None:
            self._transport.resume_reading()
        self._size = 0
        return chunk

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        self._waits_since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._read_deadline, self._look)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _look(self) -> None:
        """One timer for all the waits: a new one for each chunk would cost more than reading it."""
        waited = 0.0 if self._waiter is None else self._loop.time() - self._waits_since
        if waited >= self._read_deadline:
            self._timer = None
            self._fail(httpx2.ReadTimeout("no bytes in time"))
        else:
            self._timer = self._loop.call_later(self._read_deadline - waited, self._look)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: httpx2.TransportError) -> None:
        self._error = self._error or error
        self._wake()

    # ---- for the transport -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keeps = False
            self._fail(httpx2.RemoteProtocolError(f"not HTTP: {type(error).__name__}"))
        if self._overhead > MOST_OVERHEAD:
            self._keeps = False
            self._fail(httpx2.RemoteProtocolError("headers without an end"))
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        framed = "content-length" in self.headers or "transfer-encoding" in self.headers
        if self._has_head and not framed:
            self._is_whole = True  # without a length, the end of the connection is the end of the body
            self._wake()
        elif not self._is_whole:
            self._fail(httpx2.RemoteProtocolError("the connection ended before the answer did"))

    # ---- for the parser ----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_whole:
            raise ValueError("more than was asked for")  # which the parser turns into an error of its own

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # else it trails the body
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._keeps = bool(self._parser.should_keep_alive())
        self._has_head = self.status >= 200  # what comes before is only a sign that the answer follows

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        self._waiting.append(body)
        self._size += len(body)
        if self._size > MOST_WAITING and self._transport is not None:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._has_head:
            self._is_whole = True
        else:
            self.headers.clear()
