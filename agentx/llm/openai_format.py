"""Messages and tools in the JSON of OpenAI's chat interface, byte for byte the same each time.

Made here and not by a library: a conversion that parses tool calls and writes them again changes their bytes, and the
provider's cache ends at the first byte that differs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from agentx.llm.messages import (
    AssistantMessage,
    AudioPart,
    ChatMessage,
    ImagePart,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSchema,
    UserMessage,
)

_CACHE_CONTROL = {"type": "ephemeral"}


def render_messages(
    messages: Sequence[ChatMessage], *, cache_breakpoints: Collection[int] = ()
) -> list[dict[str, Any]]:
    """The ``messages`` of a request.

    ``cache_breakpoints``: indexes of messages up to which the provider is to cache; their last content part is marked
    as gateways for Anthropic's models take it. A message without content cannot be marked and is not.
    """
    rendered = [_render(message) for message in messages]
    for index in cache_breakpoints:
        _mark(rendered[index])
    return rendered


def render_tools(tools: Sequence[ToolSchema]) -> list[dict[str, Any]]:
    """The ``tools`` of a request, in the order given."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in tools
    ]


def _render(message: ChatMessage) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        return {"role": "tool", "content": message.content, "tool_call_id": message.tool_call_id}
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = [_render_call(call) for call in message.tool_calls]
        return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
    if isinstance(message, UserMessage) and message.parts:
        text = [TextPart(message.content)] if message.content else []
        return {"role": "user", "content": [_render_part(part) for part in (*text, *message.parts)]}
    return {"role": message.role, "content": message.content}


def _render_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _readable(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _readable(arguments: str) -> str:
    """The arguments as the model wrote them if they are a JSON object, else wrapped into one.

    Servers that parse them for their templates refuse the whole request otherwise, and every later one with it.
    """
    try:
        parsed: object = json.loads(arguments)
    except ValueError:
        parsed = None
    if isinstance(parsed, Mapping):
        return arguments
    return json.dumps({"unreadable": arguments}, ensure_ascii=False) if arguments.strip() else "{}"


def _render_part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": part.url}}
    return _render_audio(part)


def _render_audio(part: AudioPart) -> dict[str, Any]:
    """OpenAI takes sounds only inline, by format and data; servers that fetch them take an address."""
    head, comma, data = part.url.partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        return {"type": "audio_url", "audio_url": {"url": part.url}}
    kind = part.media_type or head.removeprefix("data:").split(";", 1)[0]
    name = kind.rsplit("/", 1)[-1].removeprefix("x-")
    return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO.get(name, name)}}


# Media types whose format has another name.
_AUDIO = {"mpeg": "mp3", "wave": "wav"}


def _mark(rendered: dict[str, Any]) -> None:
    content: object = rendered["content"]
    if isinstance(content, str) and content:
        rendered["content"] = [{"type": "text", "text": content, "cache_control": _CACHE_CONTROL}]
    elif isinstance(content, list) and content:
        cast("list[dict[str, Any]]", content)[-1]["cache_control"] = _CACHE_CONTROL
