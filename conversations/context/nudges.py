"""What a model is told when its answer is none: sentences of ours, and how an answer that only names tools is read."""

from __future__ import annotations

import re
from collections.abc import Collection

from agentx.llm.messages import AssistantMessage, UserMessage
from conversations.context.types import TokenCounter, TranscriptMessage

EMPTY = "Your last reply had no visible text. Answer the person's message now, in plain words."
ECHO = (
    "Your last reply only named a tool. Do not write tool names: answer the person's message in plain words."
)
CONTINUE = "Your last reply was cut off by its length limit. Go on exactly where it stopped, without repeating anything."
LAST_ROUND = (
    "This was the last round of tool calls for this message. Answer the person now from what you have found, and say "
    "what you could not find out."
)

_LABEL = "[AgentX] "
# What models put around a tool's name when they write it instead of calling it.
_WRAPPING = re.compile(r"[\s`*_\"'“”‘’()\[\]{}<>:;,.|/=#-]+|</?tool_call>|tool_call|function|json", re.I)


def make_nudge(*, text: str, turn: int, counter: TokenCounter) -> TranscriptMessage:
    """A sentence of ours behind the newest message. It is part of one request only, so it has no seq and is not stored.

    In the role of the user, since many templates take no system message there, and marked as ours.
    """
    content = _LABEL + text
    tokens = counter.count_message(UserMessage(content=content))
    return TranscriptMessage(id=0, seq=0, turn=turn, role="user", content=content, tokens=tokens)


def make_draft(*, text: str, turn: int, counter: TokenCounter) -> TranscriptMessage:
    """The answer so far, as the model has to see it to go on with it; like a nudge, part of one request only."""
    tokens = counter.count_message(AssistantMessage(content=text))
    return TranscriptMessage(id=0, seq=0, turn=turn, role="assistant", content=text, tokens=tokens)


def clean_echo(*, text: str, called: Collection[str], known: Collection[str]) -> str:
    """The answer without tool names that stand in for it: "" when there is nothing else.

    ``called``: tools of this turn; an answer that begins with the name of one on a line of its own loses it. ``known``:
    all tools; an answer made of nothing but their names is empty.
    """
    rest = text
    for name in sorted(known, key=len, reverse=True):
        rest = rest.replace(name, " ")
    if rest != text and not _WRAPPING.sub("", rest):
        return ""
    first, _, others = text.lstrip().partition("\n")
    if others.strip() and _WRAPPING.sub("", first) in {_WRAPPING.sub("", name) for name in called}:
        return others.lstrip()
    return text
