"""Where the tokens of one request go: what is fixed, what the current turn takes, and what is left for history."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from agentx.llm.messages import SystemMessage
from conversations.context.budget import Budget, Reserves, derive_budget, derive_reserves
from conversations.context.current import Current, fit_current
from conversations.context.exchanges import keep_whole_exchanges
from conversations.context.forms import shape_first_sent
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
class Layout:
    """All in tokens as estimated, before calibration. ``total``: the budget in that unit.

    ``history``: the room for history at most, its high water. ``frozen``: the slow blocks with their frame.
    """

    budget: Budget
    total: int
    system: int
    tools: int
    frozen: int
    tail: int
    reserves: Reserves
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
    budget = derive_budget(window=snapshot.model.window, rules=snapshot.rules)
    total = int(budget.tokens / snapshot.model.calibration)
    system = counter.count_message(SystemMessage(content=snapshot.system_prompt))
    tools = counter.count_tools(snapshot.tools) if snapshot.tools else 0
    reserves = derive_reserves(budget=max(0, total - system - tools), rules=snapshot.rules)
    blocks = sum(block.tokens for block in snapshot.epoch.blocks)
    earlier = bool(snapshot.history) or snapshot.epoch.cut_seq > 0
    continuity = min(CONTINUITY_TOKENS, total // 8) if earlier else 0
    current = _fit(snapshot, total - system - tools, continuity, counter)
    if current is None:
        raise _does_not_fit(snapshot, budget=total, system=system, tools=tools, counter=counter)
    return Layout(
        budget=budget,
        total=total,
        system=system,
        tools=tools,
        frozen=blocks + FRAME_TOKENS if blocks else 0,
        tail=reserves.recall + FRAME_TOKENS if snapshot.epoch.cut_seq else 0,
        reserves=reserves,
        current=current,
    )


def derive_recall_tokens(*, snapshot: Snapshot, counter: TokenCounter) -> int:
    """How many tokens of passages are worth looking for: what the tail has room for, blank lines between them included."""
    budget = derive_budget(window=snapshot.model.window, rules=snapshot.rules)
    fixed = counter.count_message(SystemMessage(content=snapshot.system_prompt))
    fixed += counter.count_tools(snapshot.tools) if snapshot.tools else 0
    total = int(budget.tokens / snapshot.model.calibration)
    recall = derive_reserves(budget=max(0, total - fixed), rules=snapshot.rules).recall
    return max(0, recall - _PASSAGES * SEPARATOR_TOKENS)


def _fit(snapshot: Snapshot, room: int, continuity: int, counter: TokenCounter) -> Current | None:
    """The current turn with continuity kept where that is possible, else in all the room there is."""
    used = {call.id for message in keep_whole_exchanges(snapshot.history) for call in message.tool_calls}
    fit = partial(fit_current, messages=snapshot.current, counter=counter, used_ids=used)
    kept = fit(room=room - continuity)
    return fit(room=room) if kept is None and continuity else kept


def _does_not_fit(
    snapshot: Snapshot, *, budget: int, system: int, tools: int, counter: TokenCounter
) -> DoesNotFitError:
    needs = {"base_prompt": system}
    if tools:
        needs["tools"] = tools
    smallest = [message for message in snapshot.current if message.role != "tool"]
    needs["question"] = shape_first_sent(snapshot.question, counter=counter).tokens
    calls = sum(message.tokens for message in smallest[1:])
    results = sum(message.tokens for message in snapshot.current if message.role == "tool")
    if calls:
        needs["tool_calls"] = calls
    if results:
        needs["tool_results"] = results
    return DoesNotFitError(needs=needs, budget=budget)
