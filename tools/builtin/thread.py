"""``read_thread``: turns word for word, of this conversation or of another one of the same person."""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

from pydantic import Field

from agentx.errors import NotFound
from conversations.models import Message
from conversations.selectors.turns import Turn, turns_count, turns_read
from tools.builtin.search import QUOTED
from tools.contracts import Tool, ToolArguments, ToolContext, ToolFailure, ToolResult

# Turns and characters of one reading. A tool's result inside of it is cut sooner: its text is not what was said.
MOST_TURNS, MOST_CHARACTERS, RESULT_CHARACTERS = 20, 24_000, 1_000
# Kept of those for the first line and for what is said where turns are left out.
_FRAME_CHARACTERS = 500

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
    first, last, wanted = _range(arguments)
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
    text = _render(
        turns,
        newest=newest,
        center=arguments.center_turn or 1,
        beyond=last + 1 if last < min(wanted, newest) else None,
    )
    return ToolResult(content=text)


def _resolve(context: ToolContext, name: str) -> UUID:
    """The conversation a model names. What is no id at all gets the same answer as an id of somebody else."""
    if name in ("current", ""):
        return context.conversation_id
    found = _VIRTUAL.fullmatch(name)
    try:
        return UUID(found[1] if found else "")
    except ValueError:
        raise ToolFailure(_NO_CONVERSATION) from None


def _range(arguments: ThreadArguments) -> tuple[int, int, int]:
    """The first and last turn that may be read, and the last one that was wanted."""
    if arguments.center_turn is None:
        wanted = arguments.before + arguments.after + 1
        return 1, min(MOST_TURNS, wanted), wanted
    first = max(1, arguments.center_turn - arguments.before)
    wanted = arguments.center_turn + arguments.after
    return first, min(wanted, first + MOST_TURNS - 1), wanted


def _render(turns: Sequence[Turn], *, newest: int, center: int, beyond: int | None) -> str:
    """The turn asked for, and as many whole turns around it as there is room for. ``beyond``: the first turn that was
    asked for and not read."""
    texts = [_render_turn(turn) for turn in turns]
    middle = min(range(len(turns)), key=lambda place: abs(turns[place].number - center))
    room = MOST_CHARACTERS - _FRAME_CHARACTERS
    low, high = _choose([len(text) for text in texts], middle=middle, room=room)
    parts = [f"Turns {turns[low].number} to {turns[high].number} of {newest}. {QUOTED}"]
    limit = f"at most {MOST_TURNS} turns and {MOST_CHARACTERS:,} characters are shown"
    if low > 0:
        parts.append(f"[cut here: {limit}; read what is before with center_turn={turns[low - 1].number}]")
    parts += texts[low : high + 1]
    if len(texts[middle]) > room:
        parts[-1] = (
            f"{texts[middle][:room]}…\n\n[this turn is cut here, it has {len(texts[middle]):,} characters;"
            " conversation_search finds words in the rest]"
        )
    following = turns[high + 1].number if high + 1 < len(turns) else beyond
    if following is not None:
        parts.append(f"[cut here: {limit}; read on with center_turn={following}]")
    return "\n\n".join(parts)


def _choose(lengths: Sequence[int], *, middle: int, room: int) -> tuple[int, int]:
    """The first and last place of what fits: the middle in any case, then neighbours on either side in turn."""
    low = high = middle
    left = room - lengths[middle]
    up = down = True
    while up or down:
        up = up and high + 1 < len(lengths) and lengths[high + 1] + 2 <= left
        if up:
            high += 1
            left -= lengths[high] + 2
        down = down and low > 0 and lengths[low - 1] + 2 <= left
        if down:
            low -= 1
            left -= lengths[low] + 2
    return low, high


def _render_turn(turn: Turn) -> str:
    head = f"## Turn {turn.number}, {turn.messages[0].created_at:%Y-%m-%d %H:%M}"
    return "\n\n".join([head, *(_render_message(message) for message in turn.messages)])


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
    reads_stored=True,
)
