"""``read_thread``: turns word for word, of this conversation or of another one of the same person."""

from __future__ import annotations

import re
from uuid import UUID

from pydantic import Field

from agentx.errors import NotFound
from conversations.models import Message
from conversations.selectors.turns import Turn, turns_count, turns_read
from tools.builtin.search import QUOTED
from tools.contracts import Tool, ToolArguments, ToolContext, ToolFailure, ToolResult

# Turns and characters of one reading. A tool's result inside of it is cut sooner: its text is not what was said.
MOST_TURNS, MOST_CHARACTERS, RESULT_CHARACTERS = 20, 24_000, 1_000

_NO_CONVERSATION = 'There is no such conversation. Use "current", or the id of a conversation of this person.'
# The name by which digests and people refer to a transcript as if it were a file.
_VIRTUAL = re.compile(r"(?:conversation_history/)?([0-9a-fA-F-]{32,36})(?:\.md)?")


class ThreadArguments(ToolArguments):
    conversation_id: str = Field(
        default="current",
        max_length=100,
        description='"current", an id, or conversation_history/<id>.md.',
    )
    center_turn: int | None = Field(
        default=None, ge=1, description="The turn to read around; the earliest turns without it."
    )
    before: int = Field(default=3, ge=0, le=MOST_TURNS - 1)
    after: int = Field(default=3, ge=0, le=MOST_TURNS - 1)


def _run(context: ToolContext, arguments: ThreadArguments) -> ToolResult:
    conversation_id = _resolve(context, arguments.conversation_id)
    current = conversation_id == context.conversation_id
    first, last = _range(arguments)
    try:
        newest = turns_count(user_id=context.user_id, conversation_id=conversation_id)
        turns = turns_read(
            user_id=context.user_id,
            conversation_id=conversation_id,
            first=first,
            last=last,
            before_turn=context.turn if current else None,
        )
    except NotFound:
        raise ToolFailure(_NO_CONVERSATION) from None
    newest = min(newest, context.turn - 1) if current else newest
    if not turns:
        raise ToolFailure(f"There are no turns {first} to {last}; there are {newest} turns to read.")
    return ToolResult(content=_render(turns, newest))


def _resolve(context: ToolContext, name: str) -> UUID:
    """The conversation a model names. What is no id at all gets the same answer as an id of somebody else."""
    if name in ("current", ""):
        return context.conversation_id
    found = _VIRTUAL.fullmatch(name)
    try:
        return UUID(found[1] if found else "")
    except ValueError:
        raise ToolFailure(_NO_CONVERSATION) from None


def _range(arguments: ThreadArguments) -> tuple[int, int]:
    if arguments.center_turn is None:
        return 1, min(MOST_TURNS, arguments.before + arguments.after + 1)
    first = max(1, arguments.center_turn - arguments.before)
    return first, min(arguments.center_turn + arguments.after, first + MOST_TURNS - 1)


def _render(turns: tuple[Turn, ...], newest: int) -> str:
    head = f"Turns {turns[0].number} to {turns[-1].number} of {newest}. {QUOTED}"
    parts, left = [head], MOST_CHARACTERS - len(head)
    for turn in turns:
        text = f"## Turn {turn.number}, {turn.messages[0].created_at:%Y-%m-%d %H:%M}\n\n" + "\n\n".join(
            _render_message(message) for message in turn.messages
        )
        if len(text) > left:
            more = f"[cut here: {MOST_CHARACTERS:,} characters are shown; read on with center_turn={turn.number}]"
            parts += [f"{text[: max(0, left - len(more) - 8)]}…", more]
            break
        parts.append(text)
        left -= len(text) + 2
    return "\n\n".join(parts)


def _render_message(message: Message) -> str:
    if message.role == "tool":
        text = message.content
        if len(text) > RESULT_CHARACTERS:
            text = f"{text[:RESULT_CHARACTERS]}… [{len(text):,} characters]"
        return f"[result of a tool] {text}"
    calls = [f"[calls {call['name']}({call['arguments']})]" for call in message.tool_calls]
    return f"[{message.role}] " + "\n".join([message.content, *calls]).strip()


READ_THREAD = Tool(
    name="read_thread",
    description="Read earlier turns word for word, of this conversation or another one of the same person.",
    label="Reading the conversation",
    group="context",
    arguments=ThreadArguments,
    run=_run,
)
