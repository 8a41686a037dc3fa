"""The supervisor restarts what dies, gives up on what is broken, and leaves nothing running when it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from agentx.embedded.supervisor import restart_delay

_ROOT = Path(__file__).resolve().parents[3]

StartStack = Callable[..., tuple[subprocess.Popen[str], dict[str, int]]]


@pytest.fixture
def start_stack(tmp_path: Path) -> Iterator[StartStack]:
    """A function that starts stand-ins and returns the supervisor's process and their pids."""
    started: list[subprocess.Popen[str]] = []

    def start(*kinds: str) -> tuple[subprocess.Popen[str], dict[str, int]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.agentx.embedded.standin_stack", str(tmp_path), *kinds],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
            # The tests themselves may run under nohup, whose ignored SIGHUP a child would inherit.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )
        started.append(process)
        return process, json.loads(_read_until(process, "{"))

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _read_until(process: subprocess.Popen[str], beginning: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(beginning):
            return line
    raise AssertionError(f"the supervisor ended without a line that begins with {beginning!r}")


def _wait_until_gone(*pids: int) -> None:
    deadline = time.monotonic() + 30
    while any(
        psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids
    ):
        assert time.monotonic() < deadline, "a child is still running"
        time.sleep(0.02)


def test_delays_double_up_to_ten_seconds() -> None:
    assert [restart_delay(failures) for failures in range(1, 8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_killed_child_is_restarted_and_said_once_each(start_stack: StartStack) -> None:
    process, pids = start_stack("web=steady", "runner=steady")

    os.kill(pids["web"], signal.SIGKILL)

    line = _read_until(process, "warning:")
    assert line.startswith("warning: web ended (killed by SIGKILL); restarting in 0.05 s. Its log: ")
    assert json.loads(_read_until(process, "{"))["web"] is None
    assert _read_until(process, "ok ").startswith("ok web runs again (process ")
    after = json.loads(_read_until(process, "{"))
    assert after["runner"] == pids["runner"]
    assert after["web"] not in (None, pids["web"])


def test_a_broken_child_is_given_up_after_five_restarts_and_the_rest_goes_on(start_stack: StartStack) -> None:
    process, pids = start_stack("web=steady", "worker=broken")

    line = _read_until(process, "error:")

    assert line.startswith(
        "error: worker failed 6 times in a row (exit code 0) and is not restarted any more; "
    )
    assert psutil.pid_exists(pids["web"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_signal_ends_all_children_in_order(
    start_stack: StartStack, tmp_path: Path, number: int
) -> None:
    process, pids = start_stack("web=steady", "runner=steady", "worker=steady")

    process.send_signal(number)

    assert process.wait(timeout=30) == 0
    _wait_until_gone(*pids.values())
    assert (tmp_path / "stopped").read_text().split() == ["web", "runner", "worker"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["lock"]


def test_a_second_signal_cuts_a_long_wait_short(start_stack: StartStack) -> None:
    process, pids = start_stack("runner=slow")
    process.send_signal(signal.SIGINT)
    assert _read_until(process, "waiting for runner to finish, at most 60 s")

    process.send_signal(signal.SIGINT)

    assert _read_until(process, "warning: runner did not end by itself and was killed")
    assert process.wait(timeout=30) == 0
    _wait_until_gone(*pids.values())


def test_no_child_outlives_a_killed_supervisor(start_stack: StartStack) -> None:
    process, pids = start_stack("web=steady", "runner=steady")

    process.kill()

    _wait_until_gone(*pids.values())


def test_the_next_start_ends_a_child_that_would_not_go(start_stack: StartStack, tmp_path: Path) -> None:
    process, pids = start_stack("web=slow")
    process.kill()
    process.wait()
    assert psutil.pid_exists(pids["web"])

    _, after = start_stack("web=impatient")

    assert after["web"] != pids["web"]
    _wait_until_gone(pids["web"])
    assert json.loads((tmp_path / "run" / "web.pid").read_text())["pid"] == after["web"]
