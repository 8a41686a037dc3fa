"""Whether what must not be lost is in a request: exact values, each in the place where it counts.

A similar number or id does not count. A value ends where no further letter, digit or part of it follows: ``1,284.35`` is
not in ``11,284.35``, and ``INV-17`` is not in ``INV-171`` or ``INV-17-B``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from agentx.llm.messages import AssistantMessage, ChatMessage, TextPart, UserMessage


@dataclass(frozen=True, slots=True)
class Seen:
    """What the model is given for the last question, as texts.

    ``blocks``: by key, the blocks in front of the history. ``history``: (turn, text) of each message. ``recalled``: the
    excerpts in front of the question. ``question``: not searched, since it may name what it asks for.
    """

    blocks: dict[str, str]
    history: tuple[tuple[int, str], ...]
    recalled: str

    @property
    def texts(self) -> tuple[str, ...]:
        """All places in the order in which they are sent."""
        return (*self.blocks.values(), *(text for _, text in self.history), self.recalled)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be so. ``passes`` says whether it is."""

    name: str
    passes: Callable[[Seen], bool]


@cache
def _exactly(value: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?<!\w[-.,/_:]){re.escape(value)}(?!\w)(?![-.,/_:]\w)")


def holds(text: str, value: str) -> bool:
    """Whether the text has exactly this value."""
    return _exactly(value).search(text) is not None


def value_seen(value: str) -> Check:
    """The value is anywhere in the request."""
    return Check(f"{value} is in view", lambda seen: any(holds(text, value) for text in seen.texts))


def values_seen(name: str, values: Sequence[str]) -> Check:
    """All of the values are, wherever each of them is."""
    whole = tuple(values)
    return Check(
        f"{name} ({len(whole)}) are in view",
        lambda seen: all(any(holds(text, value) for text in seen.texts) for value in whole),
    )


def pinned(text: str) -> Check:
    """The sentence is among the pinned constraints, word for word."""
    return Check(
        f"pinned word for word: {text}", lambda seen: text in seen.blocks.get("pinned_constraints", "")
    )


def left_view(text: str) -> Check:
    """The message is no longer in the history: without it, the other checks of the scenario would prove nothing."""
    return Check(
        f"no longer in the history: {text[:40]}…",
        lambda seen: all(text not in said for _, said in seen.history),
    )


def latest_value(values: Sequence[str], *, turn: int) -> Check:
    """Of values that corrected one another, the last is in view under its turn, and no place ends with an older one."""
    *older, latest = values

    def passes(seen: Seen) -> bool:
        dated = any(holds(text, latest) for said, text in seen.history if said == turn)
        dated = dated or any(holds(excerpt, latest) for excerpt in _excerpts(seen.recalled, turn))
        return dated and all(_last_named(text, values) in (None, latest) for text in _places(seen))

    return Check(f"{latest} is in view with its turn, and not followed by {' or '.join(older)}", passes)


def _places(seen: Seen) -> tuple[str, ...]:
    """Texts that are read in one go: each block, the history, the excerpts."""
    history = "\n".join(text for _, text in seen.history)
    return (*seen.blocks.values(), history, seen.recalled)


def _last_named(text: str, values: Sequence[str]) -> str | None:
    found = [(match.start(), value) for value in values for match in _exactly(value).finditer(text)]
    return max(found)[1] if found else None


_LABEL = re.compile(r"^\[turn (\d+), \w+\] ", re.MULTILINE)


def _excerpts(recalled: str, turn: int) -> list[str]:
    """The excerpts of one turn."""
    starts = [*_LABEL.finditer(recalled)]
    ends = [*(match.start() for match in starts[1:]), len(recalled)]
    return [
        recalled[match.end() : end]
        for match, end in zip(starts, ends, strict=False)
        if int(match.group(1)) == turn
    ]


def text_of(message: ChatMessage) -> str:
    """Everything of a message that a model reads."""
    pieces = [message.content]
    if isinstance(message, UserMessage):
        pieces += [part.text for part in message.parts if isinstance(part, TextPart)]
    elif isinstance(message, AssistantMessage):
        pieces += [call.arguments for call in message.tool_calls]
    return "\n".join(pieces)


def extends(*, before: Sequence[ChatMessage], now: Sequence[ChatMessage], stable: int) -> bool:
    """Whether ``now`` begins with the first ``stable`` messages of the request before it, byte for byte."""
    return len(now) >= stable and all(
        one == other for one, other in zip(before[:stable], now[:stable], strict=True)
    )
