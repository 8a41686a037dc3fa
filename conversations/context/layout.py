"""Where the tokens of one request go: what is fixed, what the current turn takes, and what is left for history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from agentx.llm.messages import SystemMessage
from conversations.context.budget import Budget, Reserves, derive_budget, derive_reserves
from conversations.context.current import Current, fit_current
from conversations.context.exchanges import keep_whole_exchanges
from conversations.context.forms import Shaped, shape_first_sent, shape_messages
from conversations.context.types import DoesNotFitError, Snapshot, TokenCounter

# What the message that opens the history, and the one with the volatile tail, cost beyond their blocks: label,
# separators and the overhead of a message.
FRAME_TOKENS = 64
# The blank line between two passages, and how many passages have room for one.
SEPARATOR_TOKENS = 2
_PASSAGES = 8
# Kept from a heavy current turn for continuity when there are earlier turns.
CONTINUITY_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class _Frame:
    """What no message of the conversation changes. In tokens as estimated; ``total``: the budget in that unit."""

    budget: Budget
    total: int
    system: int
    tools: int
    reserves: Reserves


@dataclass(frozen=True, slots=True)
class Layout:
    """All in tokens as estimated, before calibration. ``total``: the budget in that unit.

    ``frozen``: the slow blocks with their frame. ``shaped``: the history's sendable messages in their forms, whether
    there is room for them or not; ``history``: the room there is for them at most, its high water.
    """

    budget: Budget
    total: int
    system: int
    tools: int
    frozen: int
    tail: int
    reserves: Reserves
    shaped: tuple[Shaped, ...]
    current: Current

    @property
    def fixed(self) -> int:
        return self.system + self.tools

    @property
    def history(self) -> int:
        return self.total - self.fixed - self.frozen - self.tail - self.current.tokens


def lay_out(*, snapshot: Snapshot, counter: TokenCounter) -> Layout:
    """The layout within the snapshot's epoch. Raises ``DoesNotFitError`` when what may not be cut exceeds the budget.

    Once turns have left the view, room for recall stands free whether it is used or not, so that the cut does not
    depend on what is found.
    """
    frame = _frame(snapshot, counter)
    blocks = sum(block.tokens for block in snapshot.epoch.blocks)
    shaped = shape_history(snapshot=snapshot, counter=counter)
    current = _fit(snapshot, frame, shaped, counter)
    if current is None:
        raise _does_not_fit(snapshot, frame, counter)
    return Layout(
        budget=frame.budget,
        total=frame.total,
        system=frame.system,
        tools=frame.tools,
        frozen=blocks + FRAME_TOKENS if blocks else 0,
        tail=frame.reserves.recall + FRAME_TOKENS if snapshot.epoch.cut_seq else 0,
        reserves=frame.reserves,
        shaped=shaped,
        current=current,
    )


def shape_history(*, snapshot: Snapshot, counter: TokenCounter) -> tuple[Shaped, ...]:
    """What of the history can be sent, in the forms of the snapshot's epoch."""
    return shape_messages(
        messages=keep_whole_exchanges(snapshot.history),
        settled_seq=snapshot.epoch.settled_seq,
        counter=counter,
    )


def derive_recall_tokens(*, snapshot: Snapshot, counter: TokenCounter) -> int:
    """How many tokens of passages are worth looking for: what the tail has room for, blank lines between them included."""
    return max(0, _frame(snapshot, counter).reserves.recall - _PASSAGES * SEPARATOR_TOKENS)


def _frame(snapshot: Snapshot, counter: TokenCounter) -> _Frame:
    budget = derive_budget(window=snapshot.model.window, rules=snapshot.rules)
    total = int(budget.tokens / snapshot.model.calibration)
    system = counter.count_message(SystemMessage(content=snapshot.system_prompt))
    tools = counter.count_tools(snapshot.tools) if snapshot.tools else 0
    reserves = derive_reserves(budget=max(0, total - system - tools), rules=snapshot.rules)
    return _Frame(budget, total, system, tools, reserves)


def _fit(
    snapshot: Snapshot, frame: _Frame, shaped: Sequence[Shaped], counter: TokenCounter
) -> Current | None:
    """The current turn with continuity kept where that is possible, else in all the room there is."""
    earlier = bool(snapshot.history) or snapshot.epoch.cut_seq > 0
    continuity = min(CONTINUITY_TOKENS, frame.total // 8) if earlier else 0
    room = frame.total - frame.system - frame.tools
    used = {call.id for item in shaped for call in item.message.tool_calls}
    fit = partial(fit_current, messages=snapshot.current, counter=counter, used_ids=used)
    kept = fit(room=room - continuity)
    return fit(room=room) if kept is None and continuity else kept


def _does_not_fit(snapshot: Snapshot, frame: _Frame, counter: TokenCounter) -> DoesNotFitError:
    needs = {"base_prompt": frame.system}
    if frame.tools:
        needs["tools"] = frame.tools
    smallest = [message for message in snapshot.current if message.role != "tool"]
    needs["question"] = shape_first_sent(snapshot.question, counter=counter).tokens
    calls = sum(message.tokens for message in smallest[1:])
    results = sum(message.tokens for message in snapshot.current if message.role == "tool")
    if calls:
        needs["tool_calls"] = calls
    if results:
        needs["tool_results"] = results
    return DoesNotFitError(needs=needs, budget=frame.total)
