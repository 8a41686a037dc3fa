"""The models a turn may be answered by, in order, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass

from agentx.errors import ModelError
from agentx.llm.client import ChatModel
from agentx.llm.counting import RequestCounter
from agentx.llm.health import RouteHealth, is_unavailable
from agentx.llm.routes import ModelRoute


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model as a runner reaches it, with what its server says of itself.

    ``reported_window``: tokens; None where the server does not say. ``request_counter``: for servers that count exactly.
    """

    route: ModelRoute
    model: ChatModel
    reported_window: int | None = None
    request_counter: RequestCounter | None = None


class Candidates:
    """One turn's way through the candidates: it goes on with the one that answers, and comes back to none that failed."""

    def __init__(self, candidates: tuple[Candidate, ...], *, health: RouteHealth) -> None:
        self._health = health
        self._asked = candidates[0]
        self._left = list(health.order(candidates, route_of=lambda candidate: candidate.route))
        self.current = self._left.pop(0)
        self.tried = 0
        self._first_error: ModelError | None = None

    @property
    def substituted(self) -> bool:
        """Whether another model answers than the one that was asked for."""
        return self.current is not self._asked

    @property
    def asked(self) -> Candidate:
        """The one that was asked for."""
        return self._asked

    def note_success(self) -> None:
        """The current one has answered."""
        self._health.note_success(self.current.route)

    def move_on(self, error: ModelError) -> bool:
        """Go to the next one after ``error``; False where no other may or can be asked."""
        if not is_unavailable(error):
            return False
        self._health.note_failure(self.current.route)
        self.tried += 1
        self._first_error = self._first_error or error
        if not self._left:
            return False
        self.current = self._left.pop(0)
        return True

    def final_error(self, error: ModelError) -> ModelError:
        """What is said when all have failed: the first one's error, with how many were tried."""
        first = self._first_error
        if first is None or self.tried < 2:
            return error
        first.args = (f"{first} ({self.tried} models were tried)",)
        return first
