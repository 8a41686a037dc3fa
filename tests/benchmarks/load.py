"""Many streams read at once by one cheap client, and what is measured of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import aiohttp
import orjson

Text = Callable[[bytes], str]


@dataclass
class Stream:
    """One stream as it was read. Times in seconds. ``late``: of each token, from the model's byte to here.

    ``seqs``: the numbers of its events; ``order``: those that the model gave its tokens; ``stored``: the answer that the product
    says it has stored, None where nothing says so.
    """

    began: float
    first: float | None = None
    late: list[float] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    stored: str | None = None
    error: str = ""

    @property
    def faults(self) -> int:
        """Places where something was lost, repeated or out of order: by the events' numbers, by the model's, by what is stored."""
        other_text = self.stored is not None and self.stored != "".join(self.pieces)
        return count_breaks(self.seqs, first=1) + count_breaks(self.order, first=0) + other_text


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
                        stream.pieces.append(text)
                        *stamps, held = (held + text).split(" ")
                        for stamp in stamps:
                            number, _, written = stamp.partition(":")
                            stream.order.append(int(number))
                            stream.late.append(now - int(written) / 1e6)
                    elif line.startswith(b"data: ") and b'"type":"message"' in line:
                        stream.stored = stored_answer(line[6:], before=stream.stored)
    except (aiohttp.ClientError, TimeoutError) as error:
        stream.error = type(error).__name__
    return stream


def count_breaks(numbers: Sequence[int], *, first: int) -> int:
    """How often ``numbers`` does not go on by one, from ``first``."""
    return sum(after != before + 1 for before, after in pairwise([first - 1, *numbers]))


def stored_answer(data: bytes, *, before: str | None) -> str | None:
    """The text of the answer that an event names as stored; ``before`` where it names another message."""
    message = orjson.loads(data)["data"]["message"]
    return message["content"] if message["role"] == "assistant" else before


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
