"""Which endpoints have just failed, so that a turn does not wait again for what another one has waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from agentx.errors import (
    KeyRejected,
    ModelError,
    NotAnEndpoint,
    ProviderFailed,
    ProviderUnreachable,
    RateLimited,
)
from agentx.llm.routes import ModelRoute

T = TypeVar("T")

# A failed route goes to the end of the order for so long, in seconds: PRV-02.
UNHEALTHY_SECONDS = 30.0

# Failures that say that this provider does not serve, and nothing about the request.
UNAVAILABLE: tuple[type[ModelError], ...] = (
    ProviderUnreachable,
    ProviderFailed,
    KeyRejected,
    NotAnEndpoint,
    RateLimited,
)


def is_unavailable(error: ModelError) -> bool:
    """Whether another provider may be asked: this one does not serve, and it has said nothing yet."""
    return isinstance(error, UNAVAILABLE) and not error.output_started


class RouteHealth:
    """What a process has seen of its routes. ``clock``: monotonic seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[ModelRoute, float] = {}

    def note_failure(self, route: ModelRoute) -> None:
        """The route does not serve at the moment."""
        self._failed[route] = self._clock()

    def note_success(self, route: ModelRoute) -> None:
        """The route has answered."""
        self._failed.pop(route, None)

    def is_healthy(self, route: ModelRoute) -> bool:
        """Whether it has not failed in the last ``UNHEALTHY_SECONDS``."""
        failed = self._failed.get(route)
        return failed is None or self._clock() - failed >= UNHEALTHY_SECONDS

    def order(self, candidates: Sequence[T], *, route_of: Callable[[T], ModelRoute]) -> tuple[T, ...]:
        """The candidates with the unhealthy ones at the end, otherwise in their order."""
        return tuple(sorted(candidates, key=lambda candidate: not self.is_healthy(route_of(candidate))))
