"""What can end a turn from outside while it works: a stop, a lost lease, a runner that shuts down."""

from __future__ import annotations

import asyncio

from agentx.errors import TurnError


class TurnControl:
    """Hands an outside reason to the one task that works on a turn, once."""

    def __init__(self) -> None:
        self.reason: TurnError | None = None
        self._task: asyncio.Task[None] | None = None

    def bind(self, task: asyncio.Task[None]) -> None:
        """The task to cancel; a reason that came before it is carried out now."""
        self._task = task
        if self.reason is not None:
            task.cancel()

    def end(self, reason: TurnError) -> None:
        """End the work for ``reason``; later reasons change nothing."""
        if self.reason is not None:
            return
        self.reason = reason
        if self._task is not None:
            self._task.cancel()
