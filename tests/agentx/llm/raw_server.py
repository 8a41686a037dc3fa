"""A server that says whatever bytes a test gives it, HTTP or not: what no well-made server library would let through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """``connections``: how many have been made. ``requests``: whole, as they came. ``left``: set when a client has gone."""

    def __init__(self, serve: Serve | None, answers: tuple[bytes, ...]) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self.left = asyncio.Event()
        self.base_url = ""
        self._serve = serve
        self._answers = list(answers)
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: an answer for each request; an empty one, or none that is left, ends the connection."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self._serve is not None:
                await self._serve(reader, writer)
            while self._serve is None and await self.read_request(reader):
                answer = self._answers.pop(0) if self._answers else b""
                if not answer:
                    break
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client has left, or the test is over
        finally:
            self.left.set()
            writer.close()

    async def read_request(self, reader: asyncio.StreamReader) -> bool:
        """Whether another request has come; it is kept in ``requests``."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        self.requests.append(head + await reader.readexactly(length))
        return True

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()


@asynccontextmanager
async def raw_server(*answers: bytes, serve: Serve | None = None) -> AsyncIterator[RawServer]:
    """A server in the test's event loop that gives ``answers`` in turn, or does what ``serve`` does with a connection."""
    made = RawServer(serve, answers)
    server = await asyncio.start_server(made.take, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    made.base_url = f"http://{host}:{port}/v1"
    try:
        yield made
    finally:
        server.close()
        made.end()
