"""Which endpoints have just failed, so that a turn does not wait again for what another one has waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from agentx.errors import (
    ContextOverflow,
    KeyRejected,
    ModelError,
    NotAnEndpoint,
    ProviderFailed,
    ProviderUnreachable,
    RateLimited,
    RequestRefused,
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


# Failures of a request that the provider did not begin to answer, and charges nothing for.
_REFUSALS = (*UNAVAILABLE, RequestRefused, ContextOverflow)


def is_refused(error: ModelError) -> bool:
    """Whether the provider did not take the request, so that it costs nothing."""
    return isinstance(error, _REFUSALS) and not error.output_started


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
