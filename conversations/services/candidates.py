"""The models a turn may be answered by, in order, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass

from agentx.errors import ContextOverflow, ModelError
from agentx.llm.client import ChatModel
from agentx.llm.counting import RequestCounter
from agentx.llm.health import RouteHealth, is_unavailable
from agentx.llm.routes import ModelRoute
from conversations.context.types import DoesNotFitError


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
        self._told: ModelError | None = None

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

    def move_on(self, error: ModelError | DoesNotFitError) -> bool:
        """Go to the next one after ``error``; False where no other may or can be asked."""
        if not self._may_move(error):
            return False
        if isinstance(error, ModelError):
            if is_unavailable(error):
                self._health.note_failure(self.current.route)
            if self._told is None or not self.substituted:
                self._told = error
        self.tried += 1
        if not self._left:
            return False
        self.current = self._left.pop(0)
        return True

    def final_error(self, error: ModelError | DoesNotFitError) -> ModelError | DoesNotFitError:
        """What is said when all have failed: why the one that was asked for has, with how many were tried.

        A failure that no other model could have mended is told as it is.
        """
        told = self._told
        if told is None or self.tried < 2 or not self._may_move(error):
            return error
        told.args = (f"{told} ({self.tried} models were tried)",)
        return told

    def _may_move(self, error: ModelError | DoesNotFitError) -> bool:
        """Whether another may be asked: this one does not serve, or stands in and is too small for the request."""
        if isinstance(error, DoesNotFitError | ContextOverflow):
            return self.substituted
        return is_unavailable(error)
