"""Reading what a provider says a call has cost, whatever names it uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agentx.llm.messages import UsageReport

# What a database column holds; a larger figure is nonsense, and must not keep the answer from being stored.
_MOST = 2_147_483_647


def read_usage(payload: Mapping[str, Any]) -> UsageReport:
    """The ``usage`` object of a chat completion, normalised. A figure that is missing is None, never 0.

    Cached tokens are part of the prompt in OpenAI's, llama.cpp's and vLLM's figures (``prompt_tokens_details``) and in
    DeepSeek's, which calls them ``prompt_cache_hit_tokens``; they are never added to it.
    """
    prompt_details = _mapping(payload.get("prompt_tokens_details"))
    output_details = _mapping(payload.get("completion_tokens_details"))
    cached = _count(prompt_details.get("cached_tokens"))
    return UsageReport(
        prompt_tokens=_count(payload.get("prompt_tokens")),
        cached_tokens=_count(payload.get("prompt_cache_hit_tokens")) if cached is None else cached,
        output_tokens=_count(payload.get("completion_tokens")),
        reasoning_tokens=_count(output_details.get("reasoning_tokens")),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST:
        return value
    return None
