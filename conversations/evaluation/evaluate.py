"""Playing scenarios and judging them: facts kept, budget kept, prefix kept, time spent."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentx.llm.messages import ChatMessage
from agentx.llm.tokens import default_counter
from conversations.context.types import DoesNotFitError
from conversations.evaluation.checks import Seen, extends, text_of
from conversations.evaluation.rehearsal import Asked, rehearsal_open
from conversations.evaluation.scenarios import Scenario, Turn, result_text
from conversations.models import Message
from conversations.services.transcript import NewMessage


@dataclass(slots=True)
class Verdict:
    """What became of one scenario. ``missed``: every check that failed, with its turn.

    ``prefix_breaks``: requests that did not extend the one before although the epoch stayed. ``milliseconds``: the median
    and the slowest view.
    """

    scenario: str
    turns: int = 0
    cuts: int = 0
    checks: int = 0
    missed: list[str] = field(default_factory=list[str])
    over_budget: int = 0
    prefix_breaks: int = 0
    cached_share: float = 0.0
    milliseconds: tuple[float, float] = (0.0, 0.0)

    @property
    def ok(self) -> bool:
        return not (self.missed or self.over_budget or self.prefix_breaks)


@dataclass(slots=True)
class _Previous:
    """The request before: its messages, how many of them may not change, and its epoch."""

    messages: tuple[ChatMessage, ...]
    stable: int
    epoch: int


def scenario_play(*, scenario: Scenario, owner_id: int, window: int) -> Verdict:
    """Lead the scenario's conversation through the services and judge every request of it."""
    rehearsal = rehearsal_open(owner_id=owner_id, window=window)
    verdict = Verdict(scenario.key)
    previous: _Previous | None = None
    times: list[float] = []
    predicted = used = 0
    for number, turn in enumerate(scenario.turns, 1):
        verdict.turns, verdict.checks = number, verdict.checks + len(turn.checks)
        try:
            asked = rehearsal.ask(question=turn.question)
        except DoesNotFitError as failed:
            verdict.missed.append(f"turn {number}: {failed}")
            verdict.missed += [f"turn {number}: {check.name}" for check in turn.checks]
            break
        times.append(asked.milliseconds)
        predicted += asked.view.allocation.predicted_cached or 0
        used += asked.view.allocation.used
        verdict.over_budget += _is_over_budget(asked)
        verdict.prefix_breaks += _is_broken(previous, asked)
        seen = see(asked)
        verdict.missed += [f"turn {number}: {check.name}" for check in turn.checks if not check.passes(seen)]
        previous = _as_previous(asked)
        rehearsal.reply(asked=asked, messages=_stored(turn))
    verdict.cuts = rehearsal.count_cuts()
    verdict.cached_share = predicted / used if used else 0.0
    verdict.milliseconds = (statistics.median(times), max(times)) if times else (0.0, 0.0)
    return verdict


def see(asked: Asked) -> Seen:
    """The request as the checks look at it."""
    return Seen(
        blocks={block.key: block.content for block in asked.snapshot.epoch.blocks if block.content},
        history=tuple((item.message.turn, text_of(item.value)) for item in asked.view.history),
        recalled=asked.view.tail,
    )


def _stored(turn: Turn) -> tuple[NewMessage, ...]:
    """What a turn leaves behind its question, as it is stored."""
    made: list[NewMessage] = []
    for number, step in enumerate(turn.tools, 1):
        call = {"id": f"call_{number}", "name": step.name, "arguments": json.dumps(step.arguments)}
        made.append(NewMessage(role=Message.Role.ASSISTANT, content="", tool_calls=(call,)))
        made.append(
            NewMessage(
                role=Message.Role.TOOL,
                content=result_text(step),
                tool_call_id=call["id"],
                artifact=step.result,
            )
        )
    made.append(NewMessage(role=Message.Role.ASSISTANT, content=turn.answer))
    return tuple(made)


def _is_over_budget(asked: Asked) -> bool:
    """By the view's own account, or by counting the request once more."""
    allocation = asked.view.allocation
    counted = default_counter().count_request(messages=asked.view.messages, tools=asked.view.tools)
    return max(allocation.used, round(counted * allocation.calibration)) > allocation.budget


def _is_broken(previous: _Previous | None, asked: Asked) -> bool:
    if previous is None or previous.epoch != asked.view.allocation.epoch:
        return False
    return not extends(before=previous.messages, now=asked.view.messages, stable=previous.stable)


def _as_previous(asked: Asked) -> _Previous:
    """Of a request, everything but its tail and its question stands in the next one at the same place."""
    messages = asked.view.messages
    volatile = len(asked.snapshot.current) + bool(asked.view.tail)
    stable = len(messages) - volatile if asked.view.tail else len(messages)
    return _Previous(messages, stable, asked.view.allocation.epoch)


def all_ok(verdicts: Sequence[Verdict]) -> bool:
    """Whether no scenario missed anything."""
    return all(verdict.ok for verdict in verdicts)
