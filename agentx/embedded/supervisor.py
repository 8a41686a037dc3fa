"""Keeps a list of services alive until it is told to stop, then stops them in order and nothing else.

One thread, no Django: services are started and watched from the main thread, because the kernel ties "end when the
parent ends" to the thread that forked.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Literal

from agentx.embedded.console import Console
from agentx.embedded.errors import EmbeddedError
from agentx.embedded.service import Service, wait_until_ready

TICK_SECONDS = 0.1
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 10.0
HEALTHY_SECONDS = 60.0  # after this long a death counts as the first one again
QUICK_FAILURES_ALLOWED = 5
IMPATIENT_SECONDS = 2.0  # what a child still gets after a second Ctrl-C
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """Ctrl-C or a stop signal while something was being waited for. Not an ``Exception``: no handler may swallow it."""


@dataclass(kw_only=True)
class _Unit:
    """A service and what the supervisor knows about it. Times are ``time.monotonic()`` seconds."""

    service: Service
    may_give_up: bool
    state: Literal["new", "starting", "up", "waiting", "given up"] = "new"
    since: float = 0.0
    failures: int = 0
    restart_at: float = 0.0


def restart_delay(failures: int) -> float:
    """Seconds to wait before the restart that follows the ``failures``-th quick death (1, 2, …)."""
    return min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2 ** (failures - 1))


@dataclass(kw_only=True)
class Supervisor:
    """``on_change`` is called whenever a process id has changed after a restart."""

    console: Console
    on_change: Callable[[], None] = lambda: None
    _units: list[_Unit] = field(default_factory=list)
    _stop_requests: int = 0

    @contextmanager
    def catch_signals(self) -> Iterator[None]:
        """Within: SIGINT, SIGTERM and SIGHUP are counted instead of killing us; under ``nohup`` SIGHUP stays ignored."""
        caught = [
            number
            for number in _STOP_SIGNALS
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
        ]
        before = {number: signal.signal(number, self._on_signal) for number in caught}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop_requests += 1

    def check_stop(self) -> None:
        """Raise :class:`StopRequested` when somebody asked to stop."""
        if self._stop_requests:
            raise StopRequested

    def start(self, services: Sequence[Service], *, may_give_up: bool) -> None:
        """Start all at once, then wait for each in turn with a progress line. Raises what the first failure was.

        ``may_give_up``: stop restarting one after five quick failures, as for a program that is itself broken.
        """
        for service in services:
            unit = _Unit(service=service, may_give_up=may_give_up)
            self._units.append(unit)
            self.console.begin(service.label)
            self._spawn(unit)
        for unit in self._units[-len(services) :] if services else ():
            self.console.begin(unit.service.label)
            wait_until_ready(unit.service, tick=self.check_stop)
            took = time.monotonic() - unit.since
            self._mark_up(unit)
            self.console.done(unit.service.label, seconds=took)

    def pids(self) -> dict[str, int | None]:
        """Process id by service name; None while it is down."""
        return {unit.service.name: unit.service.child.pid for unit in self._units}

    def watch(self) -> None:
        """Restart what dies, until a stop is requested; returns then."""
        while not self._stop_requests:
            for unit in self._units:
                self._look_after(unit)
            time.sleep(TICK_SECONDS)

    def stop(self, groups: Sequence[Sequence[str]]) -> None:
        """Stop group after group, the members of one group together; what is in no group comes last.

        A second Ctrl-C shortens every wait that follows to two seconds.
        """
        named = {name for group in groups for name in group}
        rest = [unit.service.name for unit in self._units if unit.service.name not in named]
        for group in (*groups, rest):
            self._stop_group([unit.service for unit in self._units if unit.service.name in group])

    def _stop_group(self, services: list[Service]) -> None:
        running = [service for service in services if service.child.has_started()]
        for service in running:
            service.child.send(service.child.program.stop_signal)
        began = time.monotonic()
        requests = self._stop_requests
        told = False
        while still := [service for service in running if service.child.is_running()]:
            waited = time.monotonic() - began
            if not told and waited > 3.0:
                longest = max(still, key=lambda service: service.stop_seconds)
                self.console.say(
                    f"waiting for {longest.label} to finish, at most {longest.stop_seconds:.0f} s "
                    "(Ctrl-C again ends it now)"
                )
                told = True
            if self._stop_requests > max(requests, 1):
                began, requests, told = time.monotonic(), self._stop_requests, True
                for service in still:
                    service.child.send(service.child.program.stop_signal)
            impatient = self._stop_requests > 1
            for service in still:
                if waited > (
                    min(IMPATIENT_SECONDS, service.stop_seconds) if impatient else service.stop_seconds
                ):
                    self.console.warn(f"{service.label} did not end by itself and was killed")
                    service.child.kill()
            time.sleep(0.02)
        for service in services:
            service.clean_up()

    def _spawn(self, unit: _Unit) -> None:
        unit.service.prepare()
        unit.since = time.monotonic()
        unit.service.spawn()
        unit.state = "starting"

    def _mark_up(self, unit: _Unit) -> None:
        unit.state = "up"
        unit.since = time.monotonic()

    def _look_after(self, unit: _Unit) -> None:
        now = time.monotonic()
        if unit.state == "waiting":
            if now >= unit.restart_at:
                self._restart(unit)
        elif unit.state in ("starting", "up") and not unit.service.child.is_running():
            self._on_death(unit, unit.service.child.exit_status())
        elif unit.state == "starting":
            if unit.service.is_ready():
                self._mark_up(unit)
                self.console.done(f"{unit.service.label} runs again (process {unit.service.child.pid})")
                self._tell_change()
            elif now - unit.since > unit.service.start_seconds:
                unit.service.child.kill()
                self._on_death(unit, f"not ready within {unit.service.start_seconds:.0f} s")
        elif unit.state == "up" and now - unit.since > HEALTHY_SECONDS:
            unit.failures = 0

    def _restart(self, unit: _Unit) -> None:
        try:
            self._spawn(unit)
        except (EmbeddedError, OSError) as error:
            self._on_death(unit, str(error))

    def _on_death(self, unit: _Unit, reason: str) -> None:
        unit.failures += 1
        log = unit.service.child.program.log_file
        if unit.may_give_up and unit.failures > QUICK_FAILURES_ALLOWED:
            unit.state = "given up"
            self.console.fail(
                f"{unit.service.label} failed {unit.failures} times in a row ({reason}) and is not restarted any more; "
                f"the rest goes on. Its log: {log}"
            )
        else:
            delay = restart_delay(unit.failures)
            unit.state = "waiting"
            unit.restart_at = time.monotonic() + delay
            self.console.warn(
                f"{unit.service.label} ended ({reason}); restarting in {delay:g} s. Its log: {log}"
            )
        self._tell_change()

    def _tell_change(self) -> None:
        with suppress(OSError):  # a full disk must not end what still runs
            self.on_change()
