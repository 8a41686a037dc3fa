"""Exact token counts, from servers that can be asked for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Protocol, cast

import httpx2
import structlog

from agentx.llm.messages import AudioPart, ChatMessage, ImagePart, ToolSchema, UserMessage
from agentx.llm.openai_format import render_messages, render_tools
from agentx.llm.tls import tls_context

log = structlog.get_logger(__name__)

# For both questions together. A count saves a compaction at most; waiting longer for it costs a person more.
COUNT_SECONDS = 2.0
# A server that cannot answer is asked again after this long.
BACK_OFF_SECONDS = 60.0


class RequestCounter(Protocol):
    """Counts the prompt tokens of a request as the provider will."""

    async def count_request(
        self, *, messages: Sequence[ChatMessage], tools: Sequence[ToolSchema] = ()
    ) -> int | None:
        """Tokens; None when the count cannot be had in time, for whatever reason. Never raises for it."""
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...


class LlamaCppCounter:
    """Asks llama.cpp's server: ``/apply-template`` makes the text that the model reads, ``/tokenize`` its tokens.

    One per process and event loop, to be closed. Media have no tokens before an encoder has seen them, so requests with
    images or sounds are not counted. After a failure the server is left alone for a minute: one that lacks these
    endpoints must not cost every turn a question.
    """

    def __init__(self, *, base_url: str, api_key: str) -> None:
        self._http = httpx2.AsyncClient(
            verify=tls_context(), timeout=COUNT_SECONDS, trust_env=False, follow_redirects=False
        )
        self._root = base_url.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._not_before = 0.0

    async def count_request(
        self, *, messages: Sequence[ChatMessage], tools: Sequence[ToolSchema] = ()
    ) -> int | None:
        if time.monotonic() < self._not_before or any(_has_media(message) for message in messages):
            return None
        try:
            async with asyncio.timeout(COUNT_SECONDS):
                return await self._count(messages, tools)
        except Exception as error:
            # Servers fail in every way there is, and an estimate is always at hand.
            self._not_before = time.monotonic() + BACK_OFF_SECONDS
            log.debug("exact_count_failed", error=type(error).__name__)
            return None

    async def aclose(self) -> None:
        """Give back connections."""
        await self._http.aclose()

    async def _count(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSchema]) -> int:
        body: dict[str, Any] = {"messages": render_messages(messages)}
        if tools:
            body["tools"] = render_tools(tools)
        prompt = (await self._ask("/apply-template", body))["prompt"]
        # As the server itself reads a prompt: markers of the template are tokens, and a beginning is put in front.
        asked = {"content": prompt, "add_special": True, "parse_special": True}
        tokens = (await self._ask("/tokenize", asked))["tokens"]
        if not isinstance(tokens, list):
            raise TypeError("tokens is no list")
        return len(cast("list[object]", tokens))

    async def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._http.post(f"{self._root}{path}", json=body, headers=self._headers)
        answer.raise_for_status()
        return answer.json()


def _has_media(message: ChatMessage) -> bool:
    return isinstance(message, UserMessage) and any(
        isinstance(part, ImagePart | AudioPart) for part in message.parts
    )
