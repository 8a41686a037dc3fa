"""What is said to a model and what comes back, as frozen values that name no provider."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Text of the operator or the product. Text of users, tools and files never goes here."""

    content: str
    role: str = "system"


@dataclass(frozen=True, slots=True)
class UserMessage:
    content: str
    role: str = "user"


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    content: str
    role: str = "assistant"


ChatMessage = SystemMessage | UserMessage | AssistantMessage


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
    """Tokens of one call as the provider reported them, normalised: ``cached_tokens`` are part of ``prompt_tokens``."""

    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None


@dataclass(frozen=True, slots=True)
class Finish:
    """Why the model stopped: ``stop``, ``length``, ``content_filter``, ``tool_calls`` or the provider's own word."""

    reason: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A chunk without text. It says nothing, but it is a sign of life."""


StreamItem = ContentDelta | ReasoningDelta | UsageReport | Finish | Heartbeat
