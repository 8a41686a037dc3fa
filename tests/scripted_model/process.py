"""The scripted server in a thread of the test's own process, with its records at hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.scripted_model.scripts import Script
from tests.scripted_model.server import STATE, State, app_make


class ScriptedModel:
    """A running server on 127.0.0.1; a context manager. ``port`` 0 takes a free one; ``window``: tokens in ``/props``."""

    def __init__(self, *, port: int = 0, window: int | None = None) -> None:
        self._wanted_port = port
        self._app = app_make(window=window)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted-model", daemon=True)
        self.port = 0

    def start(self) -> Self:
        """Listen. OSError when the port is taken."""
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def stop(self) -> None:
        """Close every connection and end the thread."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _listen(self) -> int:
        self._runner = web.AppRunner(
            self._app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1, handle_signals=False
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._wanted_port, backlog=1024).start()
        return self._runner.addresses[0][1]

    @property
    def _state(self) -> State:
        return self._app[STATE]

    @property
    def root_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What ``LLM_BASE_URL`` takes."""
        return f"{self.root_url}/v1"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Bodies of the chat requests so far, oldest first."""
        with self._state.changed:
            return list(self._state.requests)

    @property
    def request_headers(self) -> list[dict[str, str]]:
        """Headers of the same requests."""
        with self._state.changed:
            return list(self._state.headers)

    @property
    def disconnects(self) -> int:
        """Clients that left before their answer had ended."""
        return self._state.disconnects

    @property
    def live(self) -> int:
        """Answers under way."""
        return self._state.live

    def script(self, *scripts: Script) -> None:
        """Queue answers for the next requests (or for those that match)."""
        for script in scripts:
            self._state.push(script)

    def reset(self) -> None:
        """Forget scripts and records."""
        self._state.reset()

    def wait_until(self, holds: Callable[[ScriptedModel], bool], *, timeout: float = 10.0) -> None:
        """Return once the condition over the records holds. TimeoutError when it does not come true."""
        with self._state.changed:
            if not self._state.changed.wait_for(lambda: holds(self), timeout):
                raise TimeoutError("the scripted model did not see what the test waited for")
