"""What went wrong at the provider, as one of our errors.

The text of a provider's answer is never passed on: servers echo keys and prompts in it. Only its meaning is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import httpx
import openai

from agentx.errors import (
    ContextOverflow,
    KeyRejected,
    MalformedStream,
    ModelError,
    NotAnEndpoint,
    ProviderFailed,
    ProviderUnreachable,
    RateLimited,
    RequestRefused,
    StreamBroken,
)

_OVERFLOW_CODES = {"context_length_exceeded", "exceed_context_size_error"}
_OVERFLOW_TEXT = re.compile(r"context (length|size|window)|maximum context|too many tokens|prompt is too long", re.I)
_NUMBERS = re.compile(r"\b\d[\d,]*\b")


def read_failure(error: Exception, *, output_started: bool) -> ModelError:
    """The :class:`ModelError` for whatever the SDK, the HTTP client or a parser raised."""
    if isinstance(error, openai.APIStatusError):
        return _read_status(error, output_started=output_started)
    if isinstance(error, openai.APITimeoutError | httpx.TimeoutException):
        return _lost(output_started)
    if isinstance(error, openai.APIConnectionError | httpx.HTTPError):
        return _lost(output_started)
    if isinstance(error, openai.APIError):
        # An error object inside the stream: it has a body like an error answer, but no status.
        if overflow := _overflow(error.body, str(error)):
            return overflow
        return ProviderFailed(
            "The model server reported an error in the middle of its answer", output_started=output_started
        )
    if isinstance(error, UnicodeDecodeError):
        return MalformedStream(output_started=output_started)
    if isinstance(error, ValueError | TypeError | KeyError | AttributeError | IndexError):
        # Before any output this is what an HTML page with status 200 looks like to the parser.
        return (MalformedStream if output_started or _is_json_error(error) else NotAnEndpoint)(
            output_started=output_started
        )
    return ModelError(output_started=output_started)


def _is_json_error(error: Exception) -> bool:
    return type(error).__name__ == "JSONDecodeError"


def _lost(output_started: bool) -> ModelError:
    return StreamBroken(output_started=True) if output_started else ProviderUnreachable()


def _read_status(error: openai.APIStatusError, *, output_started: bool) -> ModelError:
    status = error.status_code
    if overflow := _overflow(error.body, str(error)):
        return overflow
    if status == 429:
        return RateLimited(retry_after=_retry_after(error.response.headers), output_started=output_started)
    if status in (401, 403):
        return KeyRejected(output_started=output_started)
    if status >= 500:
        return ProviderFailed(output_started=output_started, http_status=status)
    if status == 404 or 300 <= status < 400:
        return NotAnEndpoint(
            f"LLM_BASE_URL answers {status}: the address or the model name is wrong", output_started=output_started
        )
    return RequestRefused(
        f"The model provider refused the request (HTTP {status})", output_started=output_started, http_status=status
    )


def _overflow(body: object, text: str) -> ContextOverflow | None:
    """Both dialects: llama.cpp's with its own numbers, OpenAI's with numbers in a sentence. Codes may be numbers too."""
    fields = cast("Mapping[str, Any]", body) if isinstance(body, Mapping) else {}
    inner = fields.get("error")
    if isinstance(inner, Mapping):
        fields = cast("Mapping[str, Any]", inner)
    names = {str(fields.get("code", "")), str(fields.get("type", ""))}
    message = str(fields.get("message") or text)
    if not (names & _OVERFLOW_CODES or _OVERFLOW_TEXT.search(message)):
        return None
    window, prompt = fields.get("n_ctx"), fields.get("n_prompt_tokens")
    if window is None:
        numbers = [int(number.replace(",", "")) for number in _NUMBERS.findall(message)]
        window = numbers[0] if numbers else None
        prompt = numbers[1] if len(numbers) > 1 else None
    return ContextOverflow(window=window, prompt_tokens=prompt)


def _retry_after(headers: httpx.Headers) -> float | None:
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None  # a date, or nonsense: the schedule is as good a guess
