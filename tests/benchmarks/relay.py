"""The bare relay that the product is compared with: it passes an answer on as it comes and does nothing else.

No users, no storage, no resumption: what is left is the least that a process between a model and a client can cost. It is
a process of its own, ``python -m tests.benchmarks.relay PORT HOST PORT``, so that its CPU can be told from the others'.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


async def main(port: int, model_host: str, model_port: int) -> None:
    """Listen until killed. Every request is sent on as it is; of the answer, the body."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # somebody looked whether we listen
            writer.close()
            return
        length = next(
            int(line.split(b":")[1])
            for line in request.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        request += await reader.readexactly(length)
        from_model, to_model = await asyncio.open_connection(model_host, model_port)
        to_model.write(request)
        await from_model.readuntil(b"\r\n\r\n")
        writer.write(_HEAD)
        while chunk := await from_model.read(65_536):
            writer.write(
                chunk
            )  # the framing of HTTP chunks goes along as lines that no reader of events minds
            await writer.drain()
            if chunk.endswith(b"0\r\n\r\n"):
                break
        to_model.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
