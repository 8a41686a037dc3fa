"""Message columns as values: the JSON of parts and tool calls, read once and strictly.

``parts``: ``{"type": "text", "text"}``, ``{"type": "image", "url", "media_type"}`` or ``{"type": "audio", "url",
"media_type", "size"}``. ``tool_calls``: ``{"id", "name", "arguments"}`` with arguments as the model's own JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentx.llm.messages import (
    AssistantMessage,
    AudioPart,
    ChatMessage,
    ImagePart,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from conversations.context.types import TranscriptMessage


def parts_from_json(parts: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    """The parts of a user message. Raises ``ValueError`` on a type that is not known."""
    return tuple(_part(part) for part in parts)


def _part(part: Mapping[str, Any]) -> Part:
    kind = part.get("type")
    if kind == "text":
        return TextPart(text=part["text"])
    if kind == "image":
        return ImagePart(url=part["url"], media_type=part.get("media_type", ""))
    if kind == "audio":
        return AudioPart(url=part["url"], media_type=part.get("media_type", ""), size=part.get("size", 0))
    raise ValueError(f"unknown kind of part: {kind!r}")


def tool_calls_from_json(calls: Sequence[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    """The calls of an assistant message."""
    return tuple(ToolCall(id=call["id"], name=call["name"], arguments=call["arguments"]) for call in calls)


def as_chat_message(message: TranscriptMessage) -> ChatMessage:
    """A stored message as the value it stands for, whole."""
    if message.role == "user":
        return UserMessage(content=message.content, parts=message.parts)
    if message.role == "tool":
        return ToolMessage(content=message.content, tool_call_id=message.tool_call_id)
    return AssistantMessage(content=message.content, tool_calls=message.tool_calls)
