"""Reading what a provider says a call has cost, whatever names it uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from agentx.llm.messages import UsageReport

# What a database column holds; a larger figure is nonsense, and must not keep the answer from being stored.
_MOST = 2_147_483_647
_MOST_DOLLARS = 100_000


def read_usage(payload: Mapping[str, Any]) -> UsageReport:
    """The usage object of a call, normalised. A figure that is missing is None, never 0.

    Whether cached tokens are part of the prompt or beside it differs, and is told by the names of the fields:

    ===============================  ====================  =======================================  =================
    dialect                          prompt                cached                                   cached is
    ===============================  ====================  =======================================  =================
    OpenAI chat, llama.cpp, vLLM     ``prompt_tokens``     ``prompt_tokens_details.cached_tokens``  part of it
    DeepSeek                         ``prompt_tokens``     ``prompt_cache_hit_tokens``              part of it
    Moonshot                         ``prompt_tokens``     ``cached_tokens``                        part of it
    OpenAI responses                 ``input_tokens``      ``input_tokens_details.cached_tokens``   part of it
    Gemini                           ``promptTokenCount``  ``cachedContentTokenCount``              part of it
    Anthropic                        ``input_tokens``      ``cache_read_input_tokens``              beside it
    ===============================  ====================  =======================================  =================

    Anthropic also has ``cache_creation_input_tokens`` beside it: read now, cached for later. Gateways that speak
    OpenAI's dialect for Anthropic write its fields next to a ``prompt_tokens`` that holds all of them. Gemini counts
    thoughts beside the visible output, the others within it.

    What a call has cost is in ``cost`` (OpenRouter) or ``response_cost`` (LiteLLM's proxy), in dollars; 0 is a figure too.
    """
    return replace(_read_tokens(payload), cost=_read_cost(payload))


def _read_cost(payload: Mapping[str, Any]) -> float | None:
    """Where OpenRouter used a key of the operator's own (``is_byok``), ``cost`` is its fee alone, often 0.

    The maker's bill is then in ``cost_details.upstream_inference_cost``; without it, the whole is not known.
    https://openrouter.ai/docs/use-cases/usage-accounting
    """
    billed = _dollars(payload.get("cost"))
    if billed is None:
        return _dollars(payload.get("response_cost"))
    if payload.get("is_byok") is not True:
        return billed
    upstream = _dollars(_mapping(payload.get("cost_details")).get("upstream_inference_cost"))
    return None if upstream is None else billed + upstream


def _read_tokens(payload: Mapping[str, Any]) -> UsageReport:
    if "prompt_tokens" in payload:
        return _read_chat(payload)
    if "promptTokenCount" in payload:
        return _read_gemini(payload)
    return _read_input(payload)


def _read_chat(payload: Mapping[str, Any]) -> UsageReport:
    return UsageReport(
        prompt_tokens=_count(payload.get("prompt_tokens")),
        cached_tokens=_first(
            _mapping(payload.get("prompt_tokens_details")).get("cached_tokens"),
            payload.get("prompt_cache_hit_tokens"),
            payload.get("cache_read_input_tokens"),
            payload.get("cached_tokens"),
        ),
        output_tokens=_count(payload.get("completion_tokens")),
        reasoning_tokens=_first(_mapping(payload.get("completion_tokens_details")).get("reasoning_tokens")),
    )


def _read_input(payload: Mapping[str, Any]) -> UsageReport:
    """``input_tokens``: with cached tokens in it when it has details, beside them when it has Anthropic's fields."""
    prompt = _count(payload.get("input_tokens"))
    beside = _count(payload.get("cache_read_input_tokens"))
    if prompt is not None:
        prompt += (beside or 0) + (_count(payload.get("cache_creation_input_tokens")) or 0)
    return UsageReport(
        prompt_tokens=prompt,
        cached_tokens=_first(_mapping(payload.get("input_tokens_details")).get("cached_tokens"), beside),
        output_tokens=_count(payload.get("output_tokens")),
        reasoning_tokens=_first(_mapping(payload.get("output_tokens_details")).get("reasoning_tokens")),
    )


def _read_gemini(payload: Mapping[str, Any]) -> UsageReport:
    visible, thoughts = _count(payload.get("candidatesTokenCount")), _count(payload.get("thoughtsTokenCount"))
    return UsageReport(
        prompt_tokens=_count(payload.get("promptTokenCount")),
        cached_tokens=_count(payload.get("cachedContentTokenCount")),
        output_tokens=None if visible is None and thoughts is None else (visible or 0) + (thoughts or 0),
        reasoning_tokens=thoughts,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _first(*values: object) -> int | None:
    """The first of the values that is a figure."""
    return next((count for value in values if (count := _count(value)) is not None), None)


def _dollars(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST_DOLLARS:
        return float(value)
    return None


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST:
        return value
    return None
