"""What is said to a model and what comes back, as frozen values that name no provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TextPart:
    """A further text of a user message, such as the extracted text of an attached file."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image. ``url``: a data URI or an address that the provider can read. Costs a fixed number of tokens."""

    url: str
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class AudioPart:
    """A sound. ``size`` in bytes, from which its tokens are estimated."""

    url: str
    media_type: str = ""
    size: int = 0


Part = TextPart | ImagePart | AudioPart


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asked for. ``arguments``: JSON as the model wrote it, which may be malformed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as the model is told of it. ``parameters``: a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Text of the operator or the product. Text of users, tools and files never goes here."""

    content: str
    role: str = "system"


@dataclass(frozen=True, slots=True)
class UserMessage:
    """``content`` first, then ``parts`` in order."""

    content: str
    parts: tuple[Part, ...] = ()
    role: str = "user"


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """Text and calls; with calls, the text may be empty."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    role: str = "assistant"


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of one call."""

    content: str
    tool_call_id: str
    name: str = ""
    role: str = "tool"


ChatMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More of the visible answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the model's reasoning: shown live, never stored as content."""

    text: str


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Tokens of one call as the provider reported them, normalised: ``cached_tokens`` are part of ``prompt_tokens``.

    ``cost``: dollars, where the provider says what it has billed.
    """

    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """Why the model stopped: ``stop``, ``length``, ``content_filter``, ``tool_calls`` or the provider's own word."""

    reason: str


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """All calls of one answer, whole and in order; they come once, before usage and finish. Ids are unique in it."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A chunk without text. It says nothing, but it is a sign of life."""


StreamItem = ContentDelta | ReasoningDelta | ToolCalls | UsageReport | Finish | Heartbeat
