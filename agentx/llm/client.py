"""The one seam to a model provider: a protocol of ours over langchain-openai.

Retries of the SDK are off, since only the turn knows whether output has begun. The HTTP client is our own: no proxy from
the environment, no redirects (a redirect could lead to an address nobody chose), and limits for many streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import httpx2
import openai
import orjson
import structlog
from langchain_core.messages import BaseMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from openai._response import AsyncAPIResponse
from pydantic import SecretStr

from agentx.errors import MalformedStream, ModelError, ModelStalled, NotAnEndpoint
from agentx.llm.failures import read_failure
from agentx.llm.messages import ChatMessage, ContentDelta, ReasoningDelta, StreamItem, ToolSchema
from agentx.llm.openai_format import render_messages, render_tools
from agentx.llm.reading import AnswerReader
from agentx.llm.sse import EventDecoder

log = structlog.get_logger(__name__)

# Idle connections kept for the next call; more than this many turns rarely begin within the same few seconds.
_IDLE_CONNECTIONS = 32
_WRITE_TIMEOUT = _POOL_TIMEOUT = 30.0
# The end of an answer comes with its last event, or right behind it.
_DRAIN_SECONDS = 0.5


class ChatModel(Protocol):
    """What a turn needs of a model."""

    def stream(
        self,
        *,
        messages: Sequence[ChatMessage],
        max_output_tokens: int,
        tools: Sequence[ToolSchema] = (),
        cache_breakpoints: Sequence[int] = (),
    ) -> AsyncGenerator[StreamItem]:
        """Text as it comes, then usage and finish. Raises ``ModelError``; closing it closes the connection.

        ``cache_breakpoints``: indexes into ``messages`` up to which the provider is asked to cache; to be given only
        where the model's profile says ``explicit``, since other servers may refuse the marks.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...


@dataclass(frozen=True, slots=True)
class ChatModelSettings:
    """Where a model is and how long to wait for it. Times in seconds.

    ``read_timeout``: longest silence on the wire, comments counted as sound. ``max_output_characters``: far above any
    output limit in tokens; it ends streams that never end.
    """

    base_url: str
    api_key: str = field(repr=False)
    model: str
    connect_timeout: float
    read_timeout: float
    max_connections: int = 256
    max_output_characters: int = 2_000_000


class ReasoningChatOpenAI(ChatOpenAI):
    """ChatOpenAI drops the reasoning fields of OpenAI-compatible servers, and usage it has no name for; this keeps both.

    They travel in ``additional_kwargs`` as ``reasoning`` (text) and ``usage`` (the provider's object).
    """

    async def chunks(self, body: dict[str, Any]) -> AsyncIterator[ChatGenerationChunk]:
        """The chunks as they come. Unlike ``astream`` it keeps none of them and closes the connection with itself.

        ``body``: fields of the request, messages included. The SDK lays them over its own at the very end, so that
        neither it nor langchain converts them.
        """
        async with aclosing(
            cast("AsyncGenerator[ChatGenerationChunk]", self._astream([], extra_body=body))
        ) as stream:
            async for chunk in stream:
                yield chunk

    async def raw(self, body: dict[str, Any]) -> AsyncIterator[AsyncAPIResponse[Any]]:
        """The same request, and of its answer the bytes: the response once, open until this generator is closed.

        Errors before the first byte are the SDK's, as they are with :meth:`chunks`.
        """
        usage = {"include_usage": True}
        untyped = cast("Any", self)
        payload = untyped._get_request_payload([], extra_body=body, stream=True, stream_options=usage)
        async with untyped.async_client.with_streaming_response.create(**payload) as response:
            yield response

    def _convert_chunk_to_generation_chunk(
        self,
        chunk: dict[str, Any],
        default_chunk_class: type[BaseMessageChunk],
        base_generation_info: dict[str, Any] | None,
    ) -> ChatGenerationChunk | None:
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise MalformedStream("The model server sent an event that is not part of an answer")
        extras: dict[str, Any] = {}
        if choices:
            choice = cast("dict[str, Any]", choices[0])
            delta = cast("dict[str, Any]", choice.get("delta") or {})
            reasoning = delta.get("reasoning_content") or delta.get("reasoning")
            if isinstance(reasoning, str):
                extras["reasoning"] = reasoning
            if isinstance(calls := delta.get("tool_calls"), list):
                extras["calls"] = calls
                # Taken whole from here: what is not of the usual shape would raise in the conversion.
                delta = {key: value for key, value in delta.items() if key != "tool_calls"}
            # A chunk without a delta is passed on for its finish reason, which ChatOpenAI would drop with it.
            chunk = {**chunk, "choices": [{**choice, "delta": delta}]}
        if isinstance(usage := chunk.pop("usage", None), dict):
            extras["usage"] = usage
        base = cast("Any", super())  # its own annotations are incomplete
        generation = cast(
            "ChatGenerationChunk | None",
            base._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info),
        )
        if generation is not None:
            generation.message.additional_kwargs.update(extras)
        return generation


class LangchainChatModel:
    """The seam's implementation over ``ChatOpenAI``; one per process and event loop, shared by all its turns."""

    def __init__(self, settings: ChatModelSettings) -> None:
        self._most_characters = settings.max_output_characters
        timeout = httpx2.Timeout(
            connect=settings.connect_timeout,
            read=settings.read_timeout,
            write=_WRITE_TIMEOUT,
            pool=_POOL_TIMEOUT,
        )
        self._http = http_client_make(timeout=timeout, max_connections=settings.max_connections)
        self._model = ReasoningChatOpenAI(
            model=settings.model,
            base_url=settings.base_url,
            api_key=SecretStr(settings.api_key or "none"),
            max_retries=0,
            timeout=timeout,  # without it the SDK sends each request with no timeout, whatever the client has
            stream_usage=True,
            stream_chunk_timeout=None,  # with_stall_watch is the one clock
            http_async_client=self._http,
            openai_proxy="",  # else OPENAI_PROXY in the environment conflicts with a client of our own
            use_responses_api=False,
        )

    async def stream(
        self,
        *,
        messages: Sequence[ChatMessage],
        max_output_tokens: int,
        tools: Sequence[ToolSchema] = (),
        cache_breakpoints: Sequence[int] = (),
    ) -> AsyncGenerator[StreamItem]:
        reader = AnswerReader(most_characters=self._most_characters)
        # max_tokens: what every compatible server understands; the newer name is refused by many.
        body: dict[str, Any] = {
            "messages": render_messages(messages, cache_breakpoints=cache_breakpoints),
            "max_tokens": max_output_tokens,
        }
        if tools:
            body["tools"] = render_tools(tools)
        batches = self._read(reader, body)
        try:
            async with aclosing(batches) as open_batches:
                async for items in open_batches:
                    for item in items:
                        yield item
        except ModelError as error:
            error.output_started = error.output_started or reader.output_started
            raise
        except Exception as error:
            # Malformed data raises many kinds of errors (JSON, Unicode, plain ValueError, SDK), and a provider must
            # never be able to crash a turn: read_failure turns each into one of ours.
            log.info("model_call_failed", kind=type(error).__name__, output_started=reader.output_started)
            raise read_failure(error, output_started=reader.output_started) from None
        for item in reader.end():
            yield item

    async def _read(self, reader: AnswerReader, body: dict[str, Any]) -> AsyncGenerator[Sequence[StreamItem]]:
        """The items of each chunk of the answer to ``body``."""
        chunks = cast("AsyncGenerator[ChatGenerationChunk]", self._model.chunks(body))
        async with aclosing(chunks) as open_chunks:
            async for chunk in open_chunks:
                yield _read_chunk(reader, chunk)

    async def aclose(self) -> None:
        await self._http.aclose()


class FastChatModel(LangchainChatModel):
    """The same seam and the same request, with the answer read from its bytes: about a third of the CPU for each token."""

    async def _read(self, reader: AnswerReader, body: dict[str, Any]) -> AsyncGenerator[Sequence[StreamItem]]:
        responses = cast("AsyncGenerator[AsyncAPIResponse[Any]]", self._model.raw(body))
        async with aclosing(responses) as open_responses:
            response = await anext(open_responses)
            decoder, received = EventDecoder(), response.iter_bytes()
            async for piece in received:
                for event in decoder.feed(piece):
                    if event.startswith(b"[DONE]"):
                        await _drain(received)
                        return
                    yield _read_event(reader, event, response)


async def _drain(received: AsyncIterator[bytes]) -> None:
    """Read a finished answer to its end, since only then its connection serves the next one; not for long."""
    with contextlib.suppress(TimeoutError, httpx2.HTTPError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in received:
                pass


def chat_model_make(settings: ChatModelSettings, *, fast: bool = True) -> ChatModel:
    """The model of an installation. ``fast``: read streams from their bytes; else through langchain, chunk by chunk."""
    return FastChatModel(settings) if fast else LangchainChatModel(settings)


def http_client_make(*, timeout: httpx2.Timeout, max_connections: int) -> httpx2.AsyncClient:
    """An HTTP client that goes where it was sent and nowhere else. To be closed by whoever asked for it."""
    return httpx2.AsyncClient(
        timeout=timeout,
        limits=httpx2.Limits(max_connections=max_connections, max_keepalive_connections=_IDLE_CONNECTIONS),
        trust_env=False,
        follow_redirects=False,
        event_hooks={"response": [_refuse_web_page]},
    )


async def _refuse_web_page(response: httpx2.Response) -> None:
    """A page with status 200 has no events at all, and its absence of an answer would explain nothing."""
    if response.is_success and response.headers.get("content-type", "").startswith("text/html"):
        raise NotAnEndpoint


async def with_stall_watch(
    items: AsyncGenerator[StreamItem], *, seconds: float
) -> AsyncGenerator[StreamItem]:
    """Pass items on; raise ``ModelStalled`` after ``seconds`` without any, and close the request either way."""
    output_started = False
    async with aclosing(items) as source:
        while True:
            patience = asyncio.timeout(seconds)
            try:
                async with patience:
                    item = await anext(source)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if not patience.expired():
                    raise
                raise ModelStalled(
                    f"The model sent nothing for {seconds:g} seconds; what came before is kept",
                    output_started=output_started,
                    seconds=seconds,
                ) from None
            output_started = output_started or isinstance(item, ContentDelta | ReasoningDelta)
            yield item


def _read_event(reader: AnswerReader, event: bytes, response: AsyncAPIResponse[Any]) -> Sequence[StreamItem]:
    """The items of one event. Raises what the SDK and ``ReasoningChatOpenAI`` raise for the same event."""
    try:
        chunk: object = orjson.loads(event)
    except orjson.JSONDecodeError:
        chunk = json.loads(event)  # which takes the half of a surrogate pair that models write now and then
    fields = cast("dict[str, Any]", chunk if isinstance(chunk, dict) else {})
    error: object = fields.get("error")
    if error:
        message: object = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else None
        text = message if isinstance(message, str) else "error in the stream"
        raise openai.APIError(text, request=response.http_request, body=cast("object", error))
    choices = fields.get("choices")
    if not isinstance(choices, list):
        raise MalformedStream("The model server sent an event that is not part of an answer")
    usage = fields.get("usage")
    usage = cast("dict[str, Any]", usage) if isinstance(usage, dict) else None
    if not choices:
        return reader.take(content="", reasoning="", finish=None, usage=usage)
    choice = cast("dict[str, Any]", choices[0])
    delta = cast("dict[str, Any]", choice.get("delta") or {})
    content: object = delta.get("content")
    reasoning: object = delta.get("reasoning_content") or delta.get("reasoning")
    calls: object = delta.get("tool_calls")
    return reader.take(
        content=content if isinstance(content, str) else "",
        reasoning=reasoning if isinstance(reasoning, str) else "",
        finish=choice.get("finish_reason"),
        usage=usage,
        calls=cast("list[object]", calls) if isinstance(calls, list) else (),
    )


def _read_chunk(reader: AnswerReader, chunk: ChatGenerationChunk) -> list[StreamItem]:
    content = cast("object", chunk.message.content)
    extras = chunk.message.additional_kwargs
    return reader.take(
        content=content if isinstance(content, str) else "",
        reasoning=extras.get("reasoning") or "",
        finish=(chunk.generation_info or {}).get("finish_reason"),
        usage=extras.get("usage"),
        calls=extras.get("calls") or (),
    )
