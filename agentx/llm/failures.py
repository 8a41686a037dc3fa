"""What went wrong at the provider, as one of our errors.

The text of a provider's answer is never passed on: servers echo keys and prompts in it. Only its meaning is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, cast

import httpx2
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
_OVERFLOW_TEXT = re.compile(
    r"context (length|size|window)|maximum context|too many (input )?tokens|prompt is too long", re.I
)
_WINDOW_TEXT = re.compile(r"(?:maximum context length|context window|context size)\D{0,20}?(\d[\d,]*)", re.I)
# Three digits at least: smaller numbers in such a sentence belong to the model's name.
_NUMBERS = re.compile(r"(?<![\w.-])\d[\d,]{2,}(?![\w-])")
# A code that may be shown: lower-case words. Keys and ids have digits or capitals.
_PLAIN_CODE = re.compile(r"[a-z][a-z_]{2,40}")


def read_failure(error: Exception, *, output_started: bool) -> ModelError:
    """The :class:`ModelError` for whatever the SDK, the HTTP client or a parser raised."""
    if isinstance(error, openai.APIStatusError):
        return _read_status(error, output_started=output_started)
    if isinstance(error, openai.APIConnectionError | httpx2.TransportError):
        return StreamBroken(output_started=True) if output_started else _read_unreachable(error)
    if isinstance(error, openai.APIError):
        # An error object inside the stream: it has a body like an error answer, but no status.
        return _read_error_object(error, output_started=output_started)
    if isinstance(error, ValueError | TypeError | LookupError | AttributeError | openai.OpenAIError):
        return MalformedStream(output_started=output_started)
    return ModelError(output_started=output_started)


def _read_unreachable(error: Exception) -> ModelError:
    """The SDK tells a refused connection from a lost one only by the cause."""
    cause = error.__cause__
    while cause is not None and not isinstance(cause, httpx2.TransportError):
        cause = cause.__cause__
    if isinstance(cause, httpx2.RemoteProtocolError | httpx2.ReadError):
        return ProviderUnreachable("The connection to the model broke off before it had said anything")
    if isinstance(cause, httpx2.ReadTimeout):
        return ProviderUnreachable(
            "The model server accepted the request and then stayed silent for too long"
        )
    return ProviderUnreachable()


def _read_status(error: openai.APIStatusError, *, output_started: bool) -> ModelError:
    status = error.status_code
    if status == 429:
        return RateLimited(retry_after=_retry_after(error.response.headers), output_started=output_started)
    if status in (401, 403):
        return KeyRejected(output_started=output_started)
    fields = _error_fields(error.body)
    if overflow := _read_overflow(fields, str(error), output_started=output_started):
        return overflow
    if status >= 500:
        return ProviderFailed(output_started=output_started, http_status=status)
    if status == 404 or 300 <= status < 400:
        return NotAnEndpoint(
            f"LLM_BASE_URL answers {status}: the address or the model name is wrong",
            output_started=output_started,
            http_status=status,
        )
    code = str(fields.get("code") or fields.get("type") or "")
    reason = f"HTTP {status}, {code}" if _PLAIN_CODE.fullmatch(code) else f"HTTP {status}"
    return RequestRefused(
        f"The model provider refused the request ({reason})",
        output_started=output_started,
        http_status=status,
    )


def _read_error_object(error: openai.APIError, *, output_started: bool) -> ModelError:
    fields = _error_fields(error.body)
    names = {str(fields.get("code", "")), str(fields.get("type", ""))}
    if names & {"429", "rate_limit_exceeded"}:
        return RateLimited(output_started=output_started)
    if names & {"401", "403", "invalid_api_key"}:
        return KeyRejected(output_started=output_started)
    if overflow := _read_overflow(fields, str(error), output_started=output_started):
        return overflow
    return ProviderFailed(
        "The model server reported an error in the middle of its answer", output_started=output_started
    )


def _error_fields(body: object) -> Mapping[str, Any]:
    """The error object of an answer, which some servers wrap in ``error`` and others do not."""
    empty: Mapping[str, Any] = {}
    fields = cast("Mapping[str, Any]", body) if isinstance(body, Mapping) else empty
    inner: object = fields.get("error")
    return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else fields


def _read_overflow(fields: Mapping[str, Any], text: str, *, output_started: bool) -> ContextOverflow | None:
    """Both dialects: llama.cpp's with its own numbers, OpenAI's with numbers in a sentence. Codes may be numbers too."""
    names = {str(fields.get("code", "")), str(fields.get("type", ""))}
    message = str(fields.get("message") or text)
    if not (names & _OVERFLOW_CODES or _OVERFLOW_TEXT.search(message)):
        return None
    window, prompt = fields.get("n_ctx"), fields.get("n_prompt_tokens")
    if not isinstance(window, int):
        window, prompt = _sentence_figures(message)
    return ContextOverflow(window=window, prompt_tokens=prompt, output_started=output_started)


def _sentence_figures(message: str) -> tuple[int | None, int | None]:
    """(window, prompt tokens) of a sentence. The order differs, but what overflows is the larger of the two."""
    numbers = [int(number.replace(",", "")) for number in _NUMBERS.findall(message)][:2]
    if len(numbers) == 2:
        return min(numbers), max(numbers)
    named = _WINDOW_TEXT.search(message)
    return (int(named[1].replace(",", "")) if named else None), None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the provider asks to wait; a date is read by the provider's own clock. None when there is no sense in it."""
    asked = headers.get("retry-after", "")
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = (
                parsedate_to_datetime(asked) - parsedate_to_datetime(headers.get("date", ""))
            ).total_seconds()
        except (ValueError, TypeError):
            return None
    return seconds if 0 <= seconds < float("inf") else None
