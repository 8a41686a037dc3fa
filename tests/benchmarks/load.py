"""Many streams read at once by one cheap client, and what is measured of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import aiohttp
import orjson

Text = Callable[[bytes], str]


@dataclass
class Stream:
    """One stream as it was read. Times in seconds. ``late``: of each token, from the model's byte to here."""

    began: float
    first: float | None = None
    late: list[float] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    error: str = ""

    @property
    def faults(self) -> int:
        """Events that were lost, repeated or out of order: by their numbers, and by the model's own stamps."""
        gaps = sum(after != before + 1 for before, after in zip(self.seqs, self.seqs[1:], strict=False))
        return gaps + sum(after < before for before, after in zip(self.order, self.order[1:], strict=False))


@dataclass(frozen=True)
class Opened:
    """A request to make. ``tokens``: how many the model is asked for."""

    url: str
    body: dict
    headers: dict[str, str]
    text: Text
    tokens: int


async def read_streams(requests: Sequence[Opened]) -> list[Stream]:
    """All requests started at once, each read to its end."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        return await asyncio.gather(*(_read(session, request) for request in requests))


async def _read(session: aiohttp.ClientSession, request: Opened) -> Stream:
    stream, rest, held = Stream(began=time.monotonic()), b"", ""
    try:
        async with session.post(request.url, json=request.body, headers=request.headers) as answer:
            if answer.status != 200:
                stream.error = f"status {answer.status}"
                return stream
            async for chunk in answer.content.iter_any():
                now = time.monotonic()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.startswith(b"id: "):
                        stream.seqs.append(int(line[4:]))
                    elif line.startswith(b"data: ") and (text := request.text(line[6:])):
                        stream.first = stream.first or now - stream.began
                        *stamps, held = (held + text).split(" ")
                        for stamp in filter(None, stamps):
                            stream.order.append(int(stamp))
                            stream.late.append(now - int(stamp) / 1e6)
    except (aiohttp.ClientError, TimeoutError) as error:
        stream.error = type(error).__name__
    return stream


def product_text(data: bytes) -> str:
    """The text of one of the product's events."""
    if b'"type":"delta"' not in data:
        return ""
    return orjson.loads(data)["data"]["text"]


def model_text(data: bytes) -> str:
    """The text of one of the model's events."""
    if data.startswith(b"[DONE]"):
        return ""
    choices = orjson.loads(data)["choices"]
    return choices[0]["delta"].get("content") or "" if choices else ""
