"""Which tools a request names.

In ``static`` mode always the same ones in the same order, so that what a provider has cached of one request serves the next.
In ``dynamic`` mode those the question seems to need, which saves tokens where there are many tools; the choice
depends on the messages it is given alone and is kept nowhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agentx.llm.messages import ToolSchema
from conversations.context.types import TranscriptMessage
from tools.contracts import Role, Tool
from tools.policy import DISCOVERY, RoutingMode, allowed_tools, find_policy, name_group, singular
from tools.registry import tool_schemas

# A question of so few words that names no subject takes it from the turn before.
_FEW_WORDS = 3
# A time says "the same for then" only in a question about as short as that.
_SHORT_WORDS = 6
# Shorter tokens of a question are found in any result by chance.
_ID_CHARACTERS = 4
# As much of one result as is looked at for ids.
_RESULT_CHARACTERS = 200_000

_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"[\w.#/-]*\d[\w.#/-]*")
_POINTING = re.compile(
    r"\b(?:again|same|those|these|them|it|this one|that one|that again|the (?:first|second|third|last|next|other) one"
    r"|the others?|the rest|what about|how about)\b",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b(?:today|tomorrow|yesterday|tonight|now|(?:this|last|next|previous) (?:day|week|month|quarter|year|weekend)"
    r"|(?:in |on |for |since )?(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday)|(?<![\w-])(?:19|20)\d\d(?![\w-]))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call with the result that answers it. ``ok``: it was carried out; a name alone, called or not, opens nothing."""

    name: str
    arguments: str
    content: str
    artifact: Any = None
    ok: bool = True


def pair_uses(messages: Iterable[TranscriptMessage]) -> tuple[ToolUse, ...]:
    """The calls of these messages that have results, in order.

    A result belongs to the assistant message directly before it and its fellow results, and a call has one: whatever
    else looks like a result was not given by a tool.
    """
    uses: list[ToolUse] = []
    open_calls: dict[str, tuple[str, str]] = {}
    for message in messages:
        if message.role != "tool":
            open_calls = {call.id: (call.name, call.arguments) for call in message.tool_calls}
            if message.role != "assistant":
                open_calls = {}
            continue
        call = open_calls.pop(message.tool_call_id, None)
        if call is not None:
            uses.append(ToolUse(*call, content=message.content, artifact=message.artifact, ok=message.ok))
    return tuple(uses)


def choose_tools(
    *,
    mode: RoutingMode,
    tools: Sequence[Tool],
    role: Role,
    question: str,
    turn_uses: Sequence[ToolUse] = (),
    previous_uses: Sequence[ToolUse] = (),
) -> tuple[Tool, ...]:
    """The tools the next request names, in the order of ``tools``.

    ``turn_uses``: of this turn so far; ``previous_uses``: of the turn before, which a question that only points back
    takes its groups from. Raises ``ValueError`` for any other mode.
    """
    allowed = allowed_tools(tools=tools, role=role)
    if mode == "static":
        return tuple(tool for tool in allowed if tool.name != DISCOVERY)
    if mode != "dynamic":
        raise ValueError(f"there is no routing mode {mode!r}")
    by_name = {tool.name: name_group(tool) for tool in allowed}
    words = {singular(word) for word in _WORD.findall(question.casefold())}
    chosen = {name_group(tool) for tool in allowed if find_policy(tool).core}
    named = {name_group(tool) for tool in allowed if not find_policy(tool).keywords.isdisjoint(words)}
    chosen |= named | _groups_used(turn_uses, by_name) | read_grants(turn_uses)
    if previous_uses and points_back(question=question, previous_uses=previous_uses, names_group=bool(named)):
        chosen |= _groups_used(previous_uses, by_name)
    return tuple(tool for tool in allowed if name_group(tool) in chosen)


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """What is offered for the calls of one person's turn. Called with what the choice depends on, since that is read later."""

    mode: RoutingMode
    tools: tuple[Tool, ...]
    role: Role

    def __call__(
        self, history: Sequence[TranscriptMessage], current: Sequence[TranscriptMessage]
    ) -> tuple[ToolSchema, ...]:
        """``history``: the messages in view before the turn. ``current``: those of the turn, its question first."""
        last = history[-1].turn if history else None
        asked = [message.content for message in current if message.role == "user" and message.seq]
        return tool_schemas(
            choose_tools(
                mode=self.mode,
                tools=self.tools,
                role=self.role,
                question="\n".join(asked),
                turn_uses=pair_uses(current),
                previous_uses=pair_uses(message for message in history if message.turn == last),
            )
        )


def points_back(*, question: str, previous_uses: Sequence[ToolUse], names_group: bool) -> bool:
    """Whether a question takes its subject from the turn before.

    It does where it points ("that again"), is little more than a time ("and tomorrow?"), is a question of hardly any
    words that names no group, or has an id in it that a result of that turn had.
    """
    count = len(_WORD.findall(question))
    if _POINTING.search(question) or (count <= _SHORT_WORDS and _TIME.search(question)):
        return True
    if count <= _FEW_WORDS and not names_group and question.rstrip().endswith(("?", "？", "؟")):
        return True
    ids = {token.strip(".#/-") for token in _TOKEN.findall(question)}
    wanted = [token for token in ids if len(token) >= _ID_CHARACTERS]
    return bool(wanted) and any(_has_any(use, wanted) for use in previous_uses)


def read_grants(uses: Iterable[ToolUse]) -> set[str]:
    """The groups that ``discover_tool_groups`` has granted in these uses.

    The artifact counts, which tools write and models do not, and only for what the call asked for.
    """
    granted: set[str] = set()
    for use in uses:
        artifact: object = use.artifact
        if use.ok and use.name == DISCOVERY and isinstance(artifact, dict):
            given = cast("dict[str, object]", artifact).get("granted")
            granted |= _strings(given) & _asked_for(use.arguments)
    return granted


def _groups_used(uses: Iterable[ToolUse], by_name: Mapping[str, str]) -> set[str]:
    return {by_name[use.name] for use in uses if use.ok and use.name in by_name}


def _asked_for(arguments: str) -> set[str]:
    try:
        parsed: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return set()
    return _strings(cast("dict[str, object]", parsed).get("groups")) if isinstance(parsed, dict) else set()


def _strings(value: object) -> set[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return {item for item in items if isinstance(item, str)}


def _has_any(use: ToolUse, wanted: Sequence[str]) -> bool:
    text = use.content[:_RESULT_CHARACTERS]
    if use.artifact is not None:
        text += json.dumps(use.artifact, ensure_ascii=False, default=str)[:_RESULT_CHARACTERS]
    return any(re.search(rf"(?<!\w){re.escape(token)}(?!\w)", text) for token in wanted)
