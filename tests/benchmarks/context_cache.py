"""How much of each request a provider that caches prefixes has already read, and whether any request is ever invalid.

Conversations are led through the engine turn by turn. Cached is what a request has in common with the beginning of the
one before it and its answer: whole messages, and the common beginning of the first that differs. Measured are at least
60 turns from one cut to a later one, so that the window is as full as it stays and cuts count as often as they come.
Baseline: the same turns in a window that drops its oldest turns as soon as the next does not fit.

Validity: generated histories with everything that has ever broken a context engine, at budgets of 700 tokens and more.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, takewhile

from agentx.llm.messages import AssistantMessage, ChatMessage, SystemMessage, ToolMessage, UserMessage
from agentx.settings.env import read
from conversations.context.types import Passage
from tests.benchmarks.figures import Figure
from tests.benchmarks.material.texts import write_text, write_turns
from tests.conversations.context.simulation import COUNTER, RULES, Simulation

TURNS, CONVERSATIONS = 60, 4
BUDGETS = (16_000, 32_000)
FLOORS = {(16_000, 0): 92, (32_000, 0): 96, (16_000, 500): 81, (32_000, 500): 89}
RECALLED_TOKENS = 500
HISTORIES = 300

Turn = tuple[str, str]


def run() -> list[Figure]:
    """Measure; about two minutes."""
    synthetic = [write_turns(random.Random(seed), 400) for seed in range(CONVERSATIONS)]
    figures = _replays("60 turns", synthetic)
    dialogues = _dialogues()
    if dialogues:
        figures += _replays("60 turns of real dialogues", dialogues)
    return [*figures, *_validity()]


# Cache stability


@dataclass(frozen=True)
class Replayed:
    """Tokens summed over the measured turns. ``breaks``: prefixes that changed although the epoch stayed.

    ``gaps``: turns from each cut to the next.
    """

    prompt: int
    cached: int
    breaks: int = 0
    gaps: tuple[int, ...] = ()


def _replays(name: str, conversations: Sequence[Sequence[Turn]]) -> list[Figure]:
    figures: list[Figure] = []
    breaks = 0
    for budget in BUDGETS:
        sliding = _share([_slide(turns, budget) for turns in conversations])
        for recalled in (0, RECALLED_TOKENS):
            replayed = [_replay(turns, budget, recalled) for turns in conversations]
            breaks += sum(item.breaks for item in replayed)
            label = f"{name}, {budget // 1000}k" + (
                f", {recalled} recalled tokens a turn" if recalled else ""
            )
            figures.append(
                Figure(
                    f"cached share of prompts, {label}",
                    _share(replayed),
                    "%",
                    FLOORS[budget, recalled],
                    most=False,
                    baseline=sliding,
                )
            )
            gaps = [gap for item in replayed for gap in item.gaps]
            figures.append(
                Figure(f"turns between two cuts, median, {label}", statistics.median(gaps), "turns")
            )
    return [*figures, Figure(f"prefix breaks outside an epoch change, {name}", breaks, "breaks", 0)]


def _share(replayed: Sequence[Replayed]) -> float:
    return 100 * sum(item.cached for item in replayed) / sum(item.prompt for item in replayed)


def _replay(turns: Sequence[Turn], budget: int, recalled: int) -> Replayed:
    """Through the engine, from the first cut to the first one that is at least 60 turns later."""
    simulation = Simulation(window=2 * budget, rules=replace(RULES, prompt_target=budget))
    numbers = random.Random(budget)
    before: list[ChatMessage] = []
    prompt = cached = breaks = 0
    cuts: list[int] = []
    for place, (question, answer) in enumerate(turns):
        simulation.passages = _recall(numbers, recalled)
        sent = simulation.ask(question)
        now = list(sent.view.messages)
        stays = sent.begun is None and bool(before)
        if stays and not _extends(simulation, now, before):
            breaks += 1
        if cuts:
            prompt += sent.view.allocation.used
            cached += _common_tokens(before, now)
        if sent.begun is not None and sent.begun.state.reason == "cut":
            cuts.append(place)
            if place - cuts[0] >= TURNS:
                break
        simulation.reply(("assistant", answer, {}))
        before = [*now, AssistantMessage(content=answer)]
    else:
        raise AssertionError("the conversation is too short for a full window")
    gaps = tuple(later - earlier for earlier, later in pairwise(cuts))
    return Replayed(prompt, cached, breaks, gaps)


def _extends(simulation: Simulation, now: Sequence[ChatMessage], before: Sequence[ChatMessage]) -> bool:
    """Whether a request begins with the one before it up to that one's volatile tail, or its answer without a tail."""
    kept = len(before) - 3 if simulation.sent[-2].view.tail else len(before)
    return list(now[:kept]) == list(before[:kept])


def _recall(numbers: random.Random, tokens: int) -> tuple[Passage, ...]:
    """One passage of that many tokens, of other words each turn."""
    if not tokens:
        return ()
    words = write_text(numbers, tokens).split()
    while COUNTER.count_text(text := " ".join(words)) > tokens:
        words.pop()
    return (Passage(turn=1, seqs=(1,), text=text, score=1.0, tokens=COUNTER.count_text(text)),)


def _slide(turns: Sequence[Turn], budget: int) -> Replayed:
    """The window that drops its oldest turns, over as many turns once it is full."""
    system = SystemMessage(content=Simulation().system)
    window: list[tuple[ChatMessage, ChatMessage]] = []
    before: list[ChatMessage] = []
    prompt = cached = full = 0
    for text, answer in turns:
        question = UserMessage(content=text)
        now = [system, *(message for turn in window for message in turn), question]
        while (size := _tokens(now)) > budget:
            window.pop(0)
            full = full or 1
            now = [system, *(message for turn in window for message in turn), question]
        if full:
            prompt, cached, full = prompt + size, cached + _common_tokens(before, now), full + 1
        if full > TURNS:
            break
        window.append((question, AssistantMessage(content=answer)))
        before = [*now, window[-1][1]]
    return Replayed(prompt, cached)


def _tokens(messages: Sequence[ChatMessage]) -> int:
    return sum(COUNTER.count_message(message) for message in messages)


def _common_tokens(before: Sequence[ChatMessage], now: Sequence[ChatMessage]) -> int:
    """Tokens of the common beginning of two requests."""
    same = 0
    for earlier, later in zip(before, now, strict=False):
        if earlier != later:
            if earlier.role == later.role:
                same += COUNTER.count_text(_common_beginning(earlier.content, later.content))
            break
        same += COUNTER.count_message(later)
    return same


def _common_beginning(one: str, other: str) -> str:
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(character for character, _ in pairs)


def _dialogues() -> list[list[Turn]]:
    """The dialogues behind one another, beginning with every other of them once; what one speaker says in a row is one message."""
    folder = read("AGENTX_BENCH_DATA")
    files = sorted(folder.glob("*.json")) if folder is not None else []
    told = [_as_turns(raw["messages"]) for path in files for raw in json.loads(path.read_text())]
    if not told:
        print("cache stability on real dialogues SKIPPED: AGENTX_BENCH_DATA names no folder with dialogues")
    return [list(chain(*told[first:], *told[:first])) for first in range(0, len(told), 2)]


def _as_turns(messages: Sequence[dict[str, str]]) -> list[Turn]:
    said: list[tuple[str, str]] = []
    for message in messages:
        if said and said[-1][0] == message["speaker"]:
            said[-1] = (message["speaker"], f"{said[-1][1]}\n{message['text']}")
        else:
            said.append((message["speaker"], message["text"]))
    texts = [text for _, text in said]
    return list(zip(texts[::2], texts[1::2], strict=False))


# Validity


@dataclass
class Faults:
    """What was found wrong in the requests of all histories."""

    requests: int = 0
    orphans: int = 0
    gaps: int = 0
    duplicates: int = 0


def _validity() -> list[Figure]:
    from hypothesis import HealthCheck, Phase, given, seed, settings, strategies

    from tests.conversations.context.generated import conversations, windows
    from tests.conversations.context.test_invariants import play

    faults = Faults()

    @seed(12)
    @settings(
        max_examples=HISTORIES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(script=conversations, window=windows, calibration=strategies.sampled_from([0.9, 1.0, 1.37, 2.0]))
    def look(script: object, window: int, calibration: float) -> None:
        for simulation, _, sent in play(script, window, calibration):
            faults.requests += 1
            faults.orphans += _orphans(sent.view.messages)
            _look_at_segments(faults, simulation)

    look()
    name = f"{faults.requests:,} requests of {HISTORIES} generated histories"
    return [
        Figure(f"calls without results and results without calls, {name}", faults.orphans, "", 0),
        Figure("gaps between segments, or from them to the view, without a notice", faults.gaps, "", 0),
        Figure("duplicate or overlapping segments", faults.duplicates, "", 0),
    ]


def _orphans(messages: Sequence[ChatMessage]) -> int:
    """Calls that no result answers at once, and results that answer no call."""
    waiting: list[str] = []
    wrong = 0
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id in waiting:
                waiting.remove(message.tool_call_id)
            else:
                wrong += 1
            continue
        wrong += len(waiting)
        waiting = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
    return wrong + len(waiting)


def _look_at_segments(faults: Faults, simulation: Simulation) -> None:
    reached = 0
    for segment in simulation.segments:
        faults.duplicates += segment.from_seq <= reached
        faults.gaps += segment.from_seq > reached + 1
        reached = max(reached, segment.through_seq)
    epoch = simulation.epoch
    noticed = any(block.key == "overflow_notice" for block in epoch.blocks)
    faults.gaps += reached < epoch.cut_seq and not noticed
