"""Conversations of our own in which something must not be lost, and what has to be in the request when it is asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from conversations.evaluation.checks import (
    Check,
    latest_value,
    left_view,
    pinned,
    value_seen,
    values_seen,
)


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One call and its result, which is stored as JSON and as the tool's artifact."""

    name: str
    arguments: dict[str, Any]
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """What a person says, what tools return, what is answered; ``checks`` look at the request of this very turn."""

    question: str
    answer: str
    tools: tuple[ToolStep, ...] = ()
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """Turns in order. ``key`` names it on the command line."""

    key: str
    about: str
    turns: tuple[Turn, ...]


def all_scenarios() -> tuple[Scenario, ...]:
    """Every scenario, the shortest first. The same on every call."""
    return (
        _finance(),
        _late_decision(),
        _sources(),
        _standing_constraint(),
        _corrections(),
        _project(),
    )


# What people talk about in between

_SUBJECTS = (
    ("bread", "the dough rests overnight in the cold and is folded twice before it is shaped"),
    ("bicycles", "a chain lasts longer when it is wiped after rain and oiled on the inside only"),
    ("gardens", "tomatoes want their water at the roots, in the morning, and never on the leaves"),
    ("maps", "contour lines that run close together mean a steep slope, whatever the colour says"),
    ("bees", "a colony gathers most in the two weeks when lime trees flower, and much less afterwards"),
    ("clocks", "a pendulum that is warmed grows longer, so an old clock loses time in summer"),
    ("rivers", "the fastest water flows below the surface in the middle, which is why boats keep to it"),
    ("glass", "it is cooled slowly through a whole night, because tension would break it months later"),
    ("paint", "two thin layers dry harder than one thick layer, and the second needs no sanding"),
    ("trains", "a freight train needs more than a kilometre to stop, even on a dry and level track"),
    ("stars", "in autumn the great square stands high in the south before midnight"),
    ("wool", "it keeps warm when it is wet, and felts when it is washed hot and rubbed"),
)
_ASKED = (
    "Tell me something useful about {}, please.",
    "What should a beginner know about {}?",
    "Is there anything about {} that most people get wrong?",
    "How would you explain {} to a child?",
)
_AROUND = (
    "Most of it is a matter of patience",
    "People who do it every day say the same",
    "There are exceptions, and they are rarer than one thinks",
    "It is worth trying once with nothing at stake",
    "Old handbooks describe it in almost the same words",
)


def _chatter(count: int, *, start: int = 0) -> tuple[Turn, ...]:
    """Turns about other things; each about 200 tokens, so that thirty of them fill the bundled model's window."""
    made: list[Turn] = []
    for number in range(start, start + count):
        told = [_SUBJECTS[(number * 5 + step * 7) % len(_SUBJECTS)] for step in range(4)]
        around = [_AROUND[(number + step) % len(_AROUND)] for step in range(4)]
        pieces = [
            f"{words}. With {subject} it comes down to one thing: {fact}."
            for words, (subject, fact) in zip(around, told, strict=True)
        ]
        made.append(Turn(_ASKED[number % len(_ASKED)].format(told[0][0]), " ".join(pieces)))
    return tuple(made)


# Scenarios

_REFUNDS = {7: "84.10", 23: "312.00", 41: "59.95", 66: "420.30", 88: "108.00", 102: "300.00"}
_TOTAL_REFUNDS = "1,284.35"


def _finance() -> Scenario:
    """A result too large to be sent whole: what names its rows and sums them up has to stay."""
    rows = [
        {
            "id": f"txn-{70_000 + number * 37 + number % 5}",
            "date": f"2026-{1 + number // 10:02d}-{1 + number * 7 % 28:02d}",
            "type": "refund" if number in _REFUNDS else "purchase",
            "amount": _REFUNDS.get(number, f"-{12 + number * 3 % 97}.{number * 13 % 100:02d}"),
            "memo": f"card payment at counter {number}, receipt kept with the papers of that month",
        }
        for number in range(110)
    ]
    refunds = [row["id"] for row in rows if row["type"] == "refund"]
    result = {
        "transactions": rows,
        "total_refunds": _TOTAL_REFUNDS,
        "refund_ids": refunds,
        "currency": "EUR",
    }
    kept = (value_seen(_TOTAL_REFUNDS), values_seen("ids of all refunds", refunds))
    named = values_seen("ids of all rows", [row["id"] for row in rows])
    step = ToolStep("list_transactions", {"year": 2026}, result)
    return Scenario(
        "finance",
        "rows with refunds: the exact total and ids",
        (
            Turn("Read all of this year's card transactions.", "I have read them.", tools=(step,)),
            Turn(
                "What did all refunds together come to, and which transactions were refunds?",
                "See the total and the ids in the result.",
                checks=(*kept, named),
            ),
            *_chatter(6),
            Turn("And once more: which refunds were there?", "The same ones.", checks=kept),
        ),
    )


_DECISION = "Halvorsen Freight"
_RATE = "18,640.00"


def _late_decision() -> Scenario:
    """A note that talks for pages before it decides."""
    pages = [
        f"Point {number}. {_AROUND[number % 5]}, somebody said about {_SUBJECTS[number % 12][0]}, and it was noted that "
        f"{_SUBJECTS[number % 12][1]}. Nothing was settled on this point."
        for number in range(1, 38)
    ]
    pages.insert(
        26,
        f"Late in the meeting the carrier for the pilot was chosen: {_DECISION}, at {_RATE} EUR a quarter.",
    )
    note = "Here are the minutes of our meeting.\n" + "\n".join(pages)
    return Scenario(
        "late-decision",
        "a long note whose decision comes late",
        (
            Turn(note, "Thank you, I have read the minutes."),
            *_chatter(42),
            Turn(
                "Which carrier was chosen for the pilot in that meeting, and at what price a quarter?",
                "As the minutes say.",
                checks=(left_view(pages[26]), value_seen(_DECISION), value_seen(_RATE)),
            ),
        ),
    )


def _sources() -> Scenario:
    """Search results: who said it must be known for as long as what was said."""
    topics = ("heat pumps", "cellar insulation", "roof windows", "rain barrels", "lime plaster", "clay walls")
    results = [
        {
            "title": f"{topic.capitalize()} in old houses",
            "url": f"https://library.example.org/{topic.replace(' ', '-')}/{2_000 + number * 17}",
            "snippet": f"A survey of {topic} in {40 + number} buildings, with costs, noise and what the owners say. "
            * 6,
        }
        for number, topic in enumerate(topics)
    ]
    urls = [row["url"] for row in results]
    step = ToolStep("web_search", {"query": "renovating an old house"}, {"results": results, "total": 6})
    said = "The survey of lime plaster is the most thorough: " + urls[4]
    return Scenario(
        "sources",
        "search results with sources",
        (
            Turn("Search for what is known about renovating an old house.", said, tools=(step,)),
            Turn("Which sources did you find?", "Six of them.", checks=(values_seen("sources", urls),)),
            *_chatter(42),
            Turn(
                "Where was that survey about lime plaster published?",
                "At the address above.",
                checks=(left_view(said), value_seen(urls[4])),
            ),
        ),
    )


_CONSTRAINT = "Never send anything to the board before Mira Okafor has signed it off."


def _standing_constraint() -> Scenario:
    """Said once, forty turns ago."""
    return Scenario(
        "constraint",
        "forty turns of chatter after one constraint",
        (
            Turn(_CONSTRAINT, "Understood."),
            *_chatter(40),
            Turn(
                "Draft the mail to the board, please.",
                "Here is a draft.",
                checks=(left_view(_CONSTRAINT), pinned(_CONSTRAINT)),
            ),
        ),
    )


_FIGURES = ("41,250.00", "43,980.50", "43,890.50")


def _corrections() -> Scenario:
    """Three figures for one thing; only the last is true."""
    told = (
        f"The catering budget of the summer party is {_FIGURES[0]} EUR.",
        f"Correction: the catering budget of the summer party is {_FIGURES[1]} EUR.",
        f"Correction again: the catering budget of the summer party is {_FIGURES[2]} EUR, and that is final.",
    )
    turns: list[Turn] = []
    for number, text in enumerate(told):
        turns += [*_chatter(8, start=number * 8), Turn(text, "Noted.")]
    return Scenario(
        "corrections",
        "three corrections of one figure",
        (
            *turns,
            *_chatter(30, start=40),
            Turn(
                "How much is the catering budget of the summer party?",
                "As corrected.",
                checks=(left_view(told[2]), latest_value(_FIGURES, turn=len(turns))),
            ),
        ),
    )


_PLANTED = (
    (4, "The contract with the tent supplier has the number TC-48813.", "What is the contract number of the tent supplier?", "TC-48813"),
    (23, "Our fire inspection takes place on 2027-03-18.", "On which date is the fire inspection?", "2027-03-18"),
    (47, "The deposit for the stage was 7,315.40 EUR.", "How high was the deposit for the stage?", "7,315.40"),
    (71, "Jun Watanabe answers for the sound; write to jun.w@stagecraft.example.", "Which address do I write to about the sound?", "jun.w@stagecraft.example"),
    (96, "The floor plan is kept in /plans/2027/hall-b-rev4.pdf.", "Under which path is the floor plan kept?", "/plans/2027/hall-b-rev4.pdf"),
    (118, "Ticket sales run through https://tickets.example.net/e/9921.", "Through which address do ticket sales run?", "https://tickets.example.net/e/9921"),
    (143, "The insurer gave our policy the number PL-2027-00419.", "What is the policy number at our insurer?", "PL-2027-00419"),
    (169, "The generator needs version 4.18.2 of its firmware.", "Which firmware version does the generator need?", "4.18.2"),
)  # fmt: skip


def _project() -> Scenario:
    """Two hundred turns; what was planted along the way is asked for at the end."""
    planted = {turn: (said, value) for turn, said, _, value in _PLANTED}
    turns = [
        Turn(planted[number][0], "Noted.") if number in planted else chatter
        for number, chatter in enumerate(_chatter(200))
    ]
    asked = [
        Turn(question, "As noted.", checks=(left_view(said), value_seen(value)))
        for _, said, question, value in _PLANTED
    ]
    return Scenario("project", "a project of 200 turns with planted ids, dates and amounts", (*turns, *asked))


def result_text(step: ToolStep) -> str:
    """A tool's result as it is stored."""
    return json.dumps(step.result, ensure_ascii=False)
