"""Behaviours by model name, for stacks that are started once and choose only by ``LLM_MODEL`` or a conversation's model.

``scripted[-behaviour][-option number]…``, for example ``scripted-reasoning-n40-tps50`` or ``scripted-overflow-n1000``.
Options: ``n`` tokens, ``tps`` tokens a second, ``ttft`` milliseconds to the first token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.scripted_model import scripts
from tests.scripted_model.scripts import Script

_OPTION = re.compile(r"-(n|tps|ttft)(\d+)(?=-|$)")


@dataclass(frozen=True)
class Asked:
    """A request as a behaviour sees it. ``earlier``: how often the same messages were sent before."""

    body: Mapping[str, Any]
    count: int | None
    earlier: int

    @property
    def words(self) -> str:
        return scripts.word_text(20 if self.count is None else self.count)

    def few(self) -> str:
        """The text before something goes wrong: three words unless the name says otherwise."""
        return scripts.word_text(3 if self.count is None else self.count)


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """The tokens of a request, as usage reports them."""
    return count_text(prompt_text(body))


def prompt_text(body: Mapping[str, Any]) -> str:
    """What the model reads: messages and tools as JSON."""
    return json.dumps([body.get("messages"), body.get("tools") or []], ensure_ascii=False)


def count_text(text: str) -> int:
    """A quarter of the characters, rounded up: no tokenizer, but the same every time."""
    return -(-len(text) // 4)


def _echo(asked: Asked) -> Script:
    lines = [f"{message.get('role')}: {message.get('content')}" for message in asked.body.get("messages", ())]
    return scripts.answer("\n".join(lines))


def _stamp(asked: Asked) -> Script:
    count = 20 if asked.count is None else asked.count
    return Script([*(("stamp", number) for number in range(count)), ("finish", "stop")])


def _tools(asked: Asked) -> Script:
    if asked.body["messages"][-1].get("role") == "tool":
        return scripts.answer(f"The tool said: {asked.body['messages'][-1].get('content')}")
    names = [tool["function"]["name"] for tool in asked.body.get("tools") or ()]
    return (
        scripts.tool_calls(*((name, "{}") for name in names))
        if names
        else scripts.answer("There are no tools.")
    )


def _rate_limit(asked: Asked) -> Script:
    refusals = 2 if asked.count is None else asked.count
    return scripts.rate_limited(retry_after="1") if asked.earlier < refusals else scripts.answer(asked.words)


def _overflow(dialect: str) -> Callable[[Asked], Script]:
    def choose(asked: Asked) -> Script:
        window, prompt = asked.count or 0, prompt_tokens(asked.body)
        if prompt <= window:
            return scripts.answer(scripts.word_text(20))
        return scripts.overflow(window=window, prompt_tokens=prompt, dialect=dialect)

    return choose


def _thinking(asked: Asked) -> Script:
    return scripts.inline_thinking(thought="Let me see. ", text=asked.words, piece=3)


def _reasoning(field_name: str) -> Callable[[Asked], Script]:
    return lambda asked: scripts.answer(
        asked.words, reasoning="Let me see what is asked. ", field_name=field_name
    )


BEHAVIOURS: Mapping[str, Callable[[Asked], Script]] = {
    "": lambda asked: scripts.answer(asked.words),
    "echo": _echo,
    "stamp": _stamp,
    "reasoning": _reasoning("reasoning_content"),
    "reasoning-short": _reasoning("reasoning"),
    "think": _thinking,
    "tools": _tools,
    "stall": lambda asked: scripts.stall(asked.few()),
    "silent": lambda asked: Script(silent=True),
    "comments": lambda asked: scripts.then(asked.few(), ("comments", 0.05)),
    "disconnect": lambda asked: scripts.disconnect(asked.few()),
    "reset": lambda asked: scripts.disconnect(asked.few(), how="reset"),
    "malformed": lambda asked: scripts.malformed(asked.few()),
    "badutf8": lambda asked: scripts.bad_utf8(asked.few()),
    "streamerror": lambda asked: scripts.stream_error(asked.few()),
    "nofinish": lambda asked: scripts.then(asked.few()),
    "ratelimit": _rate_limit,
    "keyrejected": lambda asked: scripts.key_echoed(),
    "error": lambda asked: scripts.html(500),
    "website": lambda asked: scripts.html(200),
    "overflow": _overflow("openai"),
    "overflow-llamacpp": _overflow("llamacpp"),
    "huge": lambda asked: Script(
        [("delta", {"content": "x" * (asked.count or 1_000_000)}), ("finish", "stop")]
    ),
    "endless": lambda asked: Script([("endless", "and so on ")]),
    "nul": lambda asked: Script([("delta", {"content": "a\x00b\ud800c"}), ("finish", "stop")]),
    "length": lambda asked: scripts.answer(asked.words, finish="length"),
    "filtered": lambda asked: scripts.answer(asked.few(), finish="content_filter"),
    "empty": lambda asked: scripts.answer(""),
}


def script_for(model: str, *, body: Mapping[str, Any], earlier: int) -> Script:
    """The answer that a model's name asks for. KeyError when the name means nothing."""
    options = {name: int(number) for name, number in _OPTION.findall(model)}
    base = _OPTION.sub("", model)
    if base != "scripted" and not base.startswith("scripted-"):
        raise KeyError(model)
    behaviour = BEHAVIOURS[base.removeprefix("scripted").removeprefix("-")]
    script = behaviour(Asked(body=body, count=options.get("n"), earlier=earlier))
    return script.paced(
        tokens_per_second=options.get("tps", 0), first_token_seconds=options.get("ttft", 0) / 1000
    )
