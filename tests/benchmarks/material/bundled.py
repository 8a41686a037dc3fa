"""Real turns on the bundled model through web process and runner, and what its server reports about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.stack import Stack

# The server reports what it took from its cache; the template's own tokens around messages are not in the prediction.
_SLACK_TOKENS = 24

_ASKED = (
    "Name one colour of the {}.",
    "Is the {} older than my grandmother?",
    "Give me one word that rhymes with {}.",
    "What is the {} made of, in three words?",
    "Thanks. Where would I find a {}?",
    "And who looks after the {} in winter?",
)
_THINGS = (
    *(
        "lighthouse",
        "harbour",
        "windmill",
        "orchard",
        "lantern",
        "ferry",
        "chimney",
        "meadow",
        "anchor",
        "beehive",
    ),
    *("barrel", "saddle", "kettle", "violin", "compass", "blanket", "hammer", "ladder", "bridge", "tunnel"),
)


@dataclass(frozen=True)
class BundledTurn:
    """Tokens as the server reported them, the prediction, and the epoch with the reason why it began."""

    prompt: int
    cached: int
    predicted: int | None
    epoch: int
    reason: str

    @property
    def broken(self) -> bool:
        """Clearly less was cached than what should have been."""
        return self.predicted is not None and self.cached < self.predicted * 0.95 - _SLACK_TOKENS


def turns_take(*, stack: Stack, count: int) -> list[BundledTurn]:
    """Ask ``count`` short questions one after another in one conversation."""
    client = stack.client()
    conversation = client.conversation()
    taken: list[BundledTurn] = []
    for number in range(count):
        question = _ASKED[number % len(_ASKED)].format(_THINGS[number * 7 % len(_THINGS)])
        run = client.ended(client.accepted(conversation, question), seconds=300)
        assert run["status"] == "completed", run
        taken.append(_as_turn(stack, run))
    return taken


def _as_turn(stack: Stack, run: dict[str, Any]) -> BundledTurn:
    row = stack.sql(
        "SELECT c.prompt_tokens, c.cached_tokens, c.predicted_cached_tokens, (r.view ->> 'epoch')::int, e.reason"
        " FROM conversations_modelcall c JOIN conversations_run r ON r.id = c.run_id"
        " JOIN conversations_contextepoch e"
        " ON e.conversation_id = r.conversation_id AND e.number = (r.view ->> 'epoch')::int"
        " WHERE r.id = %s ORDER BY c.call_index DESC LIMIT 1",
        run["id"],
    )[0]
    return BundledTurn(*row)


def breaks(turns: Sequence[BundledTurn]) -> list[int]:
    """Places of turns whose prefix broke although their epoch is that of the turn before."""
    return [
        place
        for place in range(1, len(turns))
        if turns[place].broken and turns[place].epoch == turns[place - 1].epoch
    ]


def cuts(turns: Sequence[BundledTurn]) -> list[int]:
    """Places of turns with which others left the view."""
    return [
        place
        for place in range(1, len(turns))
        if turns[place].epoch != turns[place - 1].epoch and turns[place].reason == "cut"
    ]


def cached_share(turns: Sequence[BundledTurn]) -> float:
    """Cached ÷ prompt tokens over all turns."""
    return sum(turn.cached for turn in turns) / sum(turn.prompt for turn in turns)
