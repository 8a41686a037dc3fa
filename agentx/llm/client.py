"""The one seam to a model provider: a protocol of ours over langchain-openai.

Retries of the SDK are off, since only the turn knows whether output has begun. The HTTP client is our own: no proxy from
the environment, no redirects (a redirect could lead to an address nobody chose), and limits for many streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages import AIMessage as LangchainAssistant
from langchain_core.messages import HumanMessage as LangchainUser
from langchain_core.messages import SystemMessage as LangchainSystem
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from agentx.errors import MalformedStream, ModelError, ModelStalled, StreamBroken
from agentx.llm.failures import read_failure
from agentx.llm.messages import (
    ChatMessage,
    ContentDelta,
    Finish,
    Heartbeat,
    ReasoningDelta,
    StreamItem,
    SystemMessage,
    UsageReport,
    UserMessage,
)
from agentx.llm.thinking import ThinkSplitter

# Characters one answer may have. Far above any output limit in tokens; it ends streams that never end.
MAX_OUTPUT_CHARACTERS = 2_000_000

_UNSTORABLE = {0: "\ufffd"} | {code: "\ufffd" for code in range(0xD800, 0xE000)}


class ChatModel(Protocol):
    """What a turn needs of a model."""

    def stream(self, *, messages: Sequence[ChatMessage], max_output_tokens: int) -> AsyncIterator[StreamItem]:
        """Text as it comes, then usage and finish. Raises ``ModelError``; closing it closes the connection."""
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...


@dataclass(frozen=True, slots=True)
class ChatModelSettings:
    """Where a model is and how long to wait for it. Times in seconds."""

    base_url: str
    api_key: str
    model: str
    connect_timeout: float
    read_timeout: float
    max_connections: int = 256


class ReasoningChatOpenAI(ChatOpenAI):
    """ChatOpenAI drops the reasoning fields of OpenAI-compatible servers; this keeps them."""

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        if "choices" not in chunk and "chunk" not in chunk:
            raise MalformedStream("The model server sent an event that is not a chat completion chunk")
        generation = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        choices = chunk.get("choices") or []
        if generation is not None and choices and isinstance(delta := choices[0].get("delta"), dict):
            reasoning = delta.get("reasoning_content") or delta.get("reasoning")
            if isinstance(reasoning, str):
                generation.message.additional_kwargs["reasoning"] = reasoning
        return generation


class LangchainChatModel:
    """The seam's implementation over ``ChatOpenAI.astream``; one per process, shared by all its turns."""

    def __init__(self, settings: ChatModelSettings) -> None:
        timeout = httpx.Timeout(
            connect=settings.connect_timeout, read=settings.read_timeout, write=30.0, pool=30.0
        )
        self._http = httpx.AsyncClient(
            timeout=timeout,
            limits=httpx.Limits(max_connections=settings.max_connections, max_keepalive_connections=32),
            trust_env=False,
            follow_redirects=False,
        )
        self._model = ReasoningChatOpenAI(
            model=settings.model,
            base_url=settings.base_url,
            api_key=SecretStr(settings.api_key or "none"),
            timeout=timeout,  # without it the SDK passes "no timeout", which overrides the client's
            max_retries=0,
            stream_usage=True,
            stream_chunk_timeout=None,  # with_stall_watch is the one clock
            http_async_client=self._http,
            use_responses_api=False,
        )

    async def stream(
        self, *, messages: Sequence[ChatMessage], max_output_tokens: int
    ) -> AsyncIterator[StreamItem]:
        reading = _Reading()
        # max_tokens: what every compatible server understands; the newer name is refused by many.
        chunks = self._model.astream(
            [_to_langchain(message) for message in messages], extra_body={"max_tokens": max_output_tokens}
        )
        try:
            async with aclosing(chunks) as open_chunks:  # type: ignore[type-var]
                async for chunk in open_chunks:
                    for item in reading.take(chunk):
                        yield item
        except ModelError as error:
            error.output_started = error.output_started or reading.output_started
            raise
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:
            # Malformed data raises many kinds of errors (JSON, Unicode, plain ValueError, SDK), and a provider must
            # never be able to crash a turn: read_failure turns each into one of ours.
            raise read_failure(error, output_started=reading.output_started) from None
        for item in reading.end():
            yield item

    async def aclose(self) -> None:
        await self._http.aclose()


class _Reading:
    """Turns chunks into stream items and remembers what the end of the stream is judged by."""

    def __init__(self) -> None:
        self.output_started = False
        self._splitter = ThinkSplitter()
        self._finish: str | None = None
        self._usage: UsageReport | None = None
        self._characters = 0

    def take(self, chunk: BaseMessage) -> list[StreamItem]:
        items: list[StreamItem] = []
        if reasoning := chunk.additional_kwargs.get("reasoning"):
            items.append(ReasoningDelta(clean_text(reasoning)))
        if isinstance(chunk.content, str) and chunk.content:
            items.extend(self._splitter.feed(clean_text(chunk.content)))
        self._finish = chunk.response_metadata.get("finish_reason") or self._finish
        if isinstance(chunk, AIMessageChunk) and chunk.usage_metadata:
            self._usage = _read_usage(chunk)
        self._count(items)
        return items or [Heartbeat()]

    def end(self) -> list[StreamItem]:
        """The rest. A stream without a finish reason was cut off, however politely it ended."""
        items: list[StreamItem] = list(self._splitter.finish())
        self._count(items)
        if self._usage is not None:
            items.append(self._usage)
        if self._finish is None:
            if not (self.output_started or self._usage):
                raise MalformedStream("The model server ended its answer without sending anything")
            raise StreamBroken(output_started=self.output_started)
        items.append(Finish(self._finish))
        return items

    def _count(self, items: Sequence[StreamItem]) -> None:
        for item in items:
            if isinstance(item, ContentDelta | ReasoningDelta):
                self.output_started = True
                self._characters += len(item.text)
        if self._characters > MAX_OUTPUT_CHARACTERS:
            raise StreamBroken("The model kept on writing beyond every limit and was cut off", output_started=True)


async def with_stall_watch(items: AsyncIterator[StreamItem], *, seconds: float) -> AsyncIterator[StreamItem]:
    """Pass items on; raise ``ModelStalled`` after ``seconds`` without any, and close the request either way."""
    output_started = False
    async with aclosing(items) as source:  # type: ignore[type-var]
        iterator = aiter(source)
        while True:
            try:
                async with asyncio.timeout(seconds):
                    item = await anext(iterator)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise ModelStalled(
                    f"The model sent nothing for {seconds:g} seconds; what came before is kept",
                    output_started=output_started,
                    seconds=seconds,
                ) from None
            output_started = output_started or isinstance(item, ContentDelta | ReasoningDelta)
            yield item


def clean_text(text: str) -> str:
    """``text`` with NUL and lone surrogates, which cannot be stored, replaced by U+FFFD."""
    return text.translate(_UNSTORABLE) if not text.isascii() or "\x00" in text else text


def _read_usage(chunk: AIMessageChunk) -> UsageReport:
    usage = chunk.usage_metadata
    assert usage is not None
    return UsageReport(
        prompt_tokens=usage.get("input_tokens"),
        cached_tokens=usage.get("input_token_details", {}).get("cache_read"),
        output_tokens=usage.get("output_tokens"),
        reasoning_tokens=usage.get("output_token_details", {}).get("reasoning"),
    )


def _to_langchain(message: ChatMessage) -> BaseMessage:
    if isinstance(message, SystemMessage):
        return LangchainSystem(message.content)
    if isinstance(message, UserMessage):
        return LangchainUser(message.content)
    return LangchainAssistant(message.content)
