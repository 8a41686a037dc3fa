"""The forms in which a message is sent: as it was first sent, or shortened once it has settled into the past.

Which of the two a message has is decided by its epoch alone, so that within one epoch a message never changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, cast

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
from conversations.context.exchanges import split_turns
from conversations.context.tool_results import ResultDoesNotFit, compact_tool_result
from conversations.context.types import TokenCounter, TranscriptMessage

# The most characters a message keeps once it has settled, and a tool result, or prose beside calls, when first sent.
SETTLED_CHARACTERS = 4_000
RESULT_CHARACTERS = 12_000
# Arguments above this many characters are clipped to previews once their message has settled.
ARGUMENT_CHARACTERS = 2_000
_PREVIEW = 200

Form = Literal["verbatim", "shortened"]


@dataclass(frozen=True, slots=True)
class Shaped:
    """A message in the form in which it is sent. ``tokens``: the estimate of exactly that."""

    message: TranscriptMessage
    value: ChatMessage
    tokens: int
    form: Form


def shape_messages(
    *, messages: Sequence[TranscriptMessage], settled_seq: int, counter: TokenCounter
) -> tuple[Shaped, ...]:
    """Every message in its form: up to ``settled_seq`` shortened, after it as first sent."""
    return tuple(_shape(message, settled_seq=settled_seq, counter=counter) for message in messages)


def _shape(message: TranscriptMessage, *, settled_seq: int, counter: TokenCounter) -> Shaped:
    """A result that could not even be sent when it was fresh must not fail every later turn: it becomes a note."""
    if message.seq <= settled_seq:
        return shape_settled(message, counter=counter)
    try:
        return shape_first_sent(message, counter=counter)
    except ResultDoesNotFit:
        return _as_note(message, counter)


def shape_first_sent(
    message: TranscriptMessage, *, counter: TokenCounter, excerpt: int | None = None
) -> Shaped:
    """Whole, but for tool results and prose beside calls: these have at most ``excerpt`` characters, or what their turn
    was sent with.

    Raises ``ResultDoesNotFit`` when a result cannot be brought down to ``excerpt``.
    """
    limit = message.excerpt if excerpt is None else excerpt
    limit = RESULT_CHARACTERS if limit is None else limit
    if message.role == "tool":
        return _shape_result(message, limit, counter)
    if message.tool_calls and len(message.content) > limit:
        short = AssistantMessage(content=cap_text(message.content, limit), tool_calls=message.tool_calls)
        return Shaped(message, short, counter.count_message(short), "shortened")
    if message.role == "user":
        value: ChatMessage = UserMessage(content=message.content, parts=message.parts)
    else:
        value = AssistantMessage(content=message.content, tool_calls=message.tool_calls)
    tokens = counter.count_message(value) if message.parts else message.tokens
    return Shaped(message, value, tokens, "verbatim")


def shape_settled(message: TranscriptMessage, *, counter: TokenCounter) -> Shaped:
    """Shortened: texts keep both ends, media become a note, large arguments a preview, results their projection."""
    if message.role == "tool":
        return _shape_settled_result(message, counter)
    if len(message.content) <= SETTLED_CHARACTERS and not message.parts and not message.tool_calls:
        return shape_first_sent(message, counter=counter)
    if message.role == "user":
        content, parts = _shorten_parts(message.content, message.parts)
        value: ChatMessage = UserMessage(content=content, parts=parts)
        same = content == message.content and parts == message.parts
    else:
        first = message.excerpt if message.tool_calls else None
        limit = SETTLED_CHARACTERS if first is None else min(SETTLED_CHARACTERS, first)
        content = cap_text(message.content, limit)
        calls = tuple(clip_arguments(call) for call in message.tool_calls)
        value = AssistantMessage(content=content, tool_calls=calls)
        same = content == message.content and calls == message.tool_calls
    if same:
        return shape_first_sent(message, counter=counter)
    return Shaped(message, value, counter.count_message(value), "shortened")


def cap_text(text: str, limit: int) -> str:
    """``text`` with at most ``limit`` characters: three quarters from its head, the rest from its tail, and a marker
    between them that says how much is missing."""
    if len(text) <= limit:
        return text
    marker = f"\n[… {len(text) - limit:,} characters left out …]\n"
    room = max(0, limit - len(marker))
    tail = room // 4
    return f"{text[: room - tail]}{marker}{text[len(text) - tail :] if tail else ''}"


@lru_cache(maxsize=512)
def clip_arguments(call: ToolCall) -> ToolCall:
    """The call with arguments of at most about 2,000 characters: still a JSON object, long strings as previews."""
    if len(call.arguments) <= ARGUMENT_CHARACTERS:
        return call
    try:
        parsed: object = json.loads(call.arguments)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        clipped = {key: _clip_value(value) for key, value in cast("Mapping[str, Any]", parsed).items()}
        arguments = json.dumps(clipped, ensure_ascii=False)
        if len(arguments) <= ARGUMENT_CHARACTERS:
            return replace(call, arguments=arguments)
    arguments = json.dumps(
        {"clipped": cap_text(call.arguments, ARGUMENT_CHARACTERS // 2), "characters": len(call.arguments)},
        ensure_ascii=False,
    )
    return replace(call, arguments=arguments)


def _clip_value(value: object) -> object:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= _PREVIEW:
        return value
    return f"{text[:_PREVIEW]}… [{len(text):,} characters, clipped]"


def _shorten_parts(content: str, parts: Sequence[Part]) -> tuple[str, tuple[Part, ...]]:
    """All texts of a message share one cap, in order; an image or sound becomes a line that says it was there."""
    room = SETTLED_CHARACTERS
    short = cap_text(content, room)
    room -= len(short)
    kept: list[Part] = []
    left_out = 0
    for part in parts:
        if isinstance(part, TextPart):
            text = cap_text(part.text, room) if room >= _PREVIEW or len(part.text) <= room else ""
            left_out += not text and bool(part.text)
            room -= len(text)
        elif isinstance(part, ImagePart):
            text = _left_out("image", part)
        else:
            text = _left_out("sound", part)
        if text:
            kept.append(TextPart(text))
    if left_out:
        kept.append(TextPart(f"[{left_out} more attached texts, left out here]"))
    return short, tuple(kept)


def _left_out(kind: str, part: ImagePart | AudioPart) -> str:
    suffix = f", {part.media_type}" if part.media_type else ""
    return f"[{kind}{suffix}: sent with this message, left out here]"


@dataclass(frozen=True, slots=True)
class _StoredResult:
    """A result under a name that stands for all of it: rows are never rewritten, and the hash tells tests apart."""

    name: tuple[int, str]
    message: TranscriptMessage = field(compare=False)


@lru_cache(maxsize=2_048)
def _compact(stored: _StoredResult, limit: int) -> str:
    """Compacting takes milliseconds, and every view of a conversation asks for the same results again."""
    return compact_tool_result(
        content=stored.message.content,
        artifact=stored.message.artifact,
        model_context=stored.message.model_context,
        limit=limit,
    )


def _shape_result(message: TranscriptMessage, limit: int, counter: TokenCounter) -> Shaped:
    stored = _StoredResult((message.id, message.chain_hash or message.content), message)
    return _as_result(message, _compact(stored, limit), counter)


def _shape_settled_result(message: TranscriptMessage, counter: TokenCounter) -> Shaped:
    limit = min(SETTLED_CHARACTERS, RESULT_CHARACTERS if message.excerpt is None else message.excerpt)
    try:
        return _shape_result(message, limit, counter)
    except ResultDoesNotFit as failed:
        if failed.needs <= RESULT_CHARACTERS:
            return _shape_result(message, failed.needs, counter)
    return _as_note(message, counter)


def _as_note(message: TranscriptMessage, counter: TokenCounter) -> Shaped:
    note = f"[a result of {len(message.content):,} characters, too large to be shown in short]"
    return _as_result(message, note, counter)


def _as_result(message: TranscriptMessage, content: str, counter: TokenCounter) -> Shaped:
    value = ToolMessage(content=content or "(no output)", tool_call_id=message.tool_call_id)
    if content == message.content and content:
        return Shaped(message, value, message.tokens, "verbatim")
    return Shaped(message, value, counter.count_message(value), "shortened")


def group_turns(shaped: Sequence[Shaped]) -> list[tuple[Shaped, ...]]:
    """The shaped messages of each turn together, in order."""
    by_id = {item.message.id: item for item in shaped}
    return [
        tuple(by_id[message.id] for message in turn)
        for turn in split_turns([item.message for item in shaped])
    ]
