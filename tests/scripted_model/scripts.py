"""What the scripted model says: values that describe one answer, step by step, and how to make the usual ones.

A script is plain data, so that a test can push it from another process as JSON. A step is a pair of a kind and a value:

=================  ======================================================================================
``delta``          the ``delta`` object of one chunk; paced by ``tokens_per_second``
``stamp``          a paced content delta: the value, a colon, CLOCK_MONOTONIC in microseconds when it is written, a space
``chunk``          keys laid over an otherwise ordinary chunk without choices
``finish``         the chunk with this finish reason, then usage when asked for, then ``[DONE]``
``error``          an event holding ``{"error": value}``
``comment``        a comment line of server-sent events
``comments``       comments for ever, this many seconds apart
``raw``            the characters U+0000 to U+00FF of the value, as bytes
``endless``        this content in deltas without end
``wait``           a pause of this many seconds
``hang``           silence until the client leaves (the value is ignored)
``drop``           the connection ends in the middle of the answer: ``close`` politely or ``reset``
=================  ======================================================================================

A script whose steps run out without ``finish`` ends the answer properly as HTTP, but without a finish reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Step = tuple[str, Any]

_SENTENCE = (
    "rivers carry small stones toward the sea and leave the large ones where they were found because water "
    "is patient and has nowhere else to be today"
)
_WORDS = _SENTENCE.split()


@dataclass(frozen=True)
class Script:
    """One answer. ``body`` (whole) excludes ``steps``; ``match`` is a text the newest user message must contain."""

    steps: Sequence[Step] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None  # "{key}" in it becomes the API key of the request
    silent: bool = False  # accept the request and never answer, not even with headers
    first_token_seconds: float = 0.0
    tokens_per_second: float = 0.0  # 0: as fast as the client reads
    usage: Mapping[str, Any] | None = None  # replaces the computed usage
    match: str | None = None
    times: int = 1  # how many requests it serves; 0: every one until reset

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Script:
        """The script in a JSON object with the names of the fields. TypeError for a name that is none."""
        steps = [(kind, argument) for kind, argument in value.get("steps", ())]
        return cls(**{**value, "steps": steps})

    def paced(self, *, tokens_per_second: float, first_token_seconds: float = 0.0) -> Script:
        return replace(self, tokens_per_second=tokens_per_second, first_token_seconds=first_token_seconds)


def split_tokens(text: str) -> list[str]:
    """``text`` in pieces of a word each; joined they are ``text``."""
    return re.findall(r"\S+\s*|\s+", text)


def word_text(count: int) -> str:
    """``count`` words, always the same ones."""
    return " ".join(_WORDS[index % len(_WORDS)] for index in range(count))


def answer(
    text: str, *, reasoning: str = "", field_name: str = "reasoning_content", finish: str = "stop"
) -> Script:
    """A good answer, one delta per word, after reasoning in the field that servers call one name or the other."""
    thought: list[Step] = [("delta", {field_name: token}) for token in split_tokens(reasoning)]
    return Script([*thought, *_content(text), ("finish", finish)])


def inline_thinking(*, thought: str, text: str, piece: int) -> Script:
    """Reasoning between think tags within the content, cut every ``piece`` characters, tags included."""
    whole = f"<think>{thought}</think>{text}"
    return Script([*_pieces(whole, piece), ("finish", "stop")])


def tool_calls(*calls: tuple[str, str], piece: int = 5) -> Script:
    """Parallel calls (name, arguments as text, which may be no JSON), arguments cut every ``piece`` characters."""
    steps: list[Step] = []
    for index, (name, arguments) in enumerate(calls):
        call = {
            "index": index,
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        steps.append(("delta", {"tool_calls": [call]}))
        for start in range(0, len(arguments), piece):
            part = {"index": index, "function": {"arguments": arguments[start : start + piece]}}
            steps.append(("delta", {"tool_calls": [part]}))
    return Script([*steps, ("finish", "tool_calls")])


def then(text: str, *steps: Step) -> Script:
    """The words of ``text``, then whatever goes wrong."""
    return Script([*_content(text), *steps])


def stall(text: str = "") -> Script:
    return then(text, ("hang", None))


def disconnect(text: str, *, how: str = "close") -> Script:
    """The connection is lost inside an event."""
    return then(text, ("raw", 'data: {"id":"x","choices":[{"index":0,"delta":{"content":"cut'), ("drop", how))


def malformed(text: str) -> Script:
    """An event that is not JSON, and a good end after it."""
    return then(text, ("raw", 'data: {"choices":[{"delta":{"content": oops\n\n'), ("finish", "stop"))


def bad_utf8(text: str) -> Script:
    """An event with a byte that UTF-8 never has, and a good end after it."""
    event = 'data: {"id":"x","choices":[{"index":0,"delta":{"content":"\xff\xfe"},"finish_reason":null}]}\n\n'
    return then(text, ("raw", event), ("finish", "stop"))


def stream_error(text: str, *, message: str = "The backend went away", code: str | int = 500) -> Script:
    return then(text, ("error", {"message": message, "type": "server_error", "code": code}))


def rate_limited(*, retry_after: str | None = None, times: int = 1) -> Script:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return replace(_refusal(429, "Too many requests", "rate_limit_exceeded"), headers=headers, times=times)


def key_echoed(status: int = 401) -> Script:
    """A refusal whose text repeats the key, as some gateways do."""
    return _refusal(status, "No access with the key {key}", "invalid_api_key")


def html(status: int) -> Script:
    """A page where JSON is expected: a proxy's error page, or a web site at a wrong address."""
    page = "<!doctype html><html><body><h1>It works</h1>\n\n<p>data: none</p></body></html>"
    return Script(status=status, body=page, headers={"Content-Type": "text/html; charset=utf-8"})


def overflow(*, window: int, prompt_tokens: int, dialect: str = "openai") -> Script:
    """The request is too long: ``openai``, ``llamacpp``, ``text`` (a bare sentence, code 400) or ``stream``."""
    sentence = f"This model's maximum context length is {window} tokens, but the messages resulted in {prompt_tokens} tokens."
    if dialect == "openai":
        return _refusal(400, sentence, "context_length_exceeded")
    if dialect == "text":
        return _refusal(400, sentence, 400)
    error = {
        "code": 400,
        "message": f"request ({prompt_tokens} tokens) exceeds the available context size ({window} tokens)",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": prompt_tokens,
        "n_ctx": window,
    }
    if dialect == "stream":
        return Script([("error", error)])
    return Script(status=400, body=json.dumps({"error": error}), headers={"Content-Type": "application/json"})


def _refusal(status: int, message: str, code: str | int) -> Script:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return Script(
        status=status, body=json.dumps({"error": error}), headers={"Content-Type": "application/json"}
    )


def _content(text: str) -> list[Step]:
    return [("delta", {"content": token}) for token in split_tokens(text)]


def _pieces(text: str, size: int) -> list[Step]:
    return [("delta", {"content": text[start : start + size]}) for start in range(0, len(text), size)]
