"""The one seam to a model provider: a protocol of ours over langchain-openai.

Retries of the SDK are off, since only the turn knows whether output has begun. The HTTP client is our own: no proxy from
the environment, no redirects (a redirect could lead to an address nobody chose), and limits for many streams.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
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
from pydantic import SecretStr

from agentx.errors import MalformedStream, ModelError, ModelStalled, NotAnEndpoint
from agentx.llm.failures import read_failure
from agentx.llm.http_stream import Deadlines, StreamClient, StreamResponse
from agentx.llm.messages import ChatMessage, ContentDelta, ReasoningDelta, StreamItem, ToolSchema
from agentx.llm.openai_format import render_messages, render_tools
from agentx.llm.reading import AnswerReader
from agentx.llm.sse import EventDecoder
from agentx.llm.tls import tls_context

log = structlog.get_logger(__name__)

# Idle connections kept for the next call; more than this many turns rarely begin within the same few seconds.
_IDLE_CONNECTIONS = 32
_WRITE_TIMEOUT = _POOL_TIMEOUT = 30.0
_PATH = "/chat/completions"


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
        """Text as it comes, then usage and finish. Raises ``ModelError``; closing it closes the connection."""
        ...

    def batches(
        self,
        *,
        messages: Sequence[ChatMessage],
        max_output_tokens: int,
        tools: Sequence[ToolSchema] = (),
        cache_breakpoints: Sequence[int] = (),
    ) -> AsyncGenerator[Sequence[StreamItem]]:
        """The same, with the items of one chunk together: for those who read many streams at once.

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

    def render_body(self, body: dict[str, Any]) -> bytes:
        """The JSON that :meth:`chunks` sends for the same ``body``."""
        usage = {"include_usage": True}
        untyped = cast("Any", self)
        payload = untyped._get_request_payload([], stream=True, stream_options=usage)
        whole = {**payload, **body}
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def status_error(
        self, *, request: httpx2.Request, status: int, headers: Mapping[str, str], body: bytes
    ) -> Exception:
        """The SDK's exception for an answer that is a refusal."""
        response = httpx2.Response(status, headers=dict(headers), content=body, request=request)
        return cast("Any", self).root_async_client._make_status_error_from_response(response)

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
        batches = self.batches(
            messages=messages,
            max_output_tokens=max_output_tokens,
            tools=tools,
            cache_breakpoints=cache_breakpoints,
        )
        async with aclosing(batches) as source:
            async for items in source:
                for item in items:
                    yield item

    async def batches(
        self,
        *,
        messages: Sequence[ChatMessage],
        max_output_tokens: int,
        tools: Sequence[ToolSchema] = (),
        cache_breakpoints: Sequence[int] = (),
    ) -> AsyncGenerator[Sequence[StreamItem]]:
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
                    yield items
        except ModelError as error:
            error.output_started = error.output_started or reader.output_started
            raise
        except Exception as error:
            # Malformed data raises many kinds of errors (JSON, Unicode, plain ValueError, SDK), and a provider must
            # never be able to crash a turn: read_failure turns each into one of ours.
            log.info("model_call_failed", kind=type(error).__name__, output_started=reader.output_started)
            raise read_failure(error, output_started=reader.output_started) from None
        yield reader.end()

    async def _read(self, reader: AnswerReader, body: dict[str, Any]) -> AsyncGenerator[Sequence[StreamItem]]:
        """The items of each chunk of the answer to ``body``."""
        chunks = cast("AsyncGenerator[ChatGenerationChunk]", self._model.chunks(body))
        async with aclosing(chunks) as open_chunks:
            async for chunk in open_chunks:
                yield _read_chunk(reader, chunk)

    async def aclose(self) -> None:
        await self._http.aclose()


class FastChatModel(LangchainChatModel):
    """The same seam and the same request, with the answer read from its bytes: a small part of the CPU for each token."""

    def __init__(self, settings: ChatModelSettings) -> None:
        super().__init__(settings)
        self._client = StreamClient(
            base_url=settings.base_url,
            deadlines=Deadlines(connect=settings.connect_timeout, read=settings.read_timeout),
            max_connections=settings.max_connections,
        )
        self._request = httpx2.Request("POST", f"{settings.base_url.rstrip('/')}{_PATH}")
        self._headers = {
            "Authorization": f"Bearer {settings.api_key or 'none'}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "User-Agent": "AgentX",
        }

    async def _read(self, reader: AnswerReader, body: dict[str, Any]) -> AsyncGenerator[Sequence[StreamItem]]:
        try:
            async with self._client.post(
                _PATH, body=self._model.render_body(body), headers=self._headers
            ) as response:
                await self._require_answer(response)
                decoder = EventDecoder()
                async for piece in response.chunks():
                    for event in decoder.feed(piece):
                        if event.startswith(b"[DONE]"):
                            return
                        yield _read_event(reader, event, self._request)
        except httpx2.TransportError as error:
            if reader.output_started:
                raise
            raise openai.APIConnectionError(request=self._request) from error  # as the SDK says it

    async def _require_answer(self, response: StreamResponse) -> None:
        """Raises what the ordinary client raises for an answer that is none."""
        if not 200 <= response.status < 300:
            raise self._model.status_error(
                request=self._request,
                status=response.status,
                headers=response.headers,
                body=await response.start_of_body(),
            )
        if response.headers.get("content-type", "").startswith("text/html"):
            raise NotAnEndpoint

    async def aclose(self) -> None:
        await self._client.aclose()
        await super().aclose()


def chat_model_make(settings: ChatModelSettings, *, fast: bool = True) -> ChatModel:
    """The model of an installation. ``fast``: read streams from their bytes; else through langchain, chunk by chunk."""
    return FastChatModel(settings) if fast else LangchainChatModel(settings)


def http_client_make(*, timeout: httpx2.Timeout, max_connections: int) -> httpx2.AsyncClient:
    """An HTTP client that goes where it was sent and nowhere else. To be closed by whoever asked for it."""
    return httpx2.AsyncClient(
        verify=tls_context(),
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
    batches: AsyncGenerator[Sequence[StreamItem]], *, seconds: float
) -> AsyncGenerator[Sequence[StreamItem]]:
    """Pass batches on; raise ``ModelStalled`` after ``seconds`` without any, and close the request either way."""
    output_started = False
    clock = _StallClock(seconds)
    async with aclosing(batches) as source:
        try:
            while True:
                clock.start()
                try:
                    items = await anext(source)
                except StopAsyncIteration:
                    return
                except asyncio.CancelledError:
                    if not clock.has_run_out():
                        raise
                    raise ModelStalled(
                        f"The model sent nothing for {seconds:g} seconds; what came before is kept",
                        output_started=output_started,
                        seconds=seconds,
                    ) from None
                clock.pause()
                output_started = output_started or any(
                    isinstance(item, ContentDelta | ReasoningDelta) for item in items
                )
                yield items
        finally:
            clock.close()


class _StallClock:
    """One timer for all the waits of a stream: an ``asyncio.timeout`` for each chunk costs more than reading it.

    It cancels the waiting task, as ``asyncio.timeout`` does, and only ever while that task waits.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._since: float | None = None
        self._ran_out = False
        self._timer = self._loop.call_later(seconds, self._look)

    def start(self) -> None:
        self._since = self._loop.time()

    def pause(self) -> None:
        self._since = None

    def close(self) -> None:
        self._timer.cancel()

    def has_run_out(self) -> bool:
        """Whether a cancellation that has just been raised is this clock's and nobody else's."""
        return self._ran_out and self._task is not None and self._task.uncancel() == 0

    def _look(self) -> None:
        waited = 0.0 if self._since is None else self._loop.time() - self._since
        if waited < self._seconds or self._task is None:
            self._timer = self._loop.call_later(self._seconds - waited, self._look)
            return
        self._ran_out = True
        self._task.cancel()


def _read_event(reader: AnswerReader, event: bytes, request: httpx2.Request) -> Sequence[StreamItem]:
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
        raise openai.APIError(text, request=request, body=cast("object", error))
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
