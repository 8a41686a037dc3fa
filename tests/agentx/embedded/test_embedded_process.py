"""A child is found, ended and logged as promised, and nothing that only looks like it is touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from agentx.embedded.process import Child, Program, end_leftover, find_leftover, read_log_tail, rotate_log

_SLEEP = "import time; time.sleep(600)"
_PARENT_OF_TWO = (
    "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    "print(child.pid, flush=True); time.sleep(600)"
)


def _program(folder: Path, code: str) -> Program:
    return Program(
        name="sample",
        argv=(sys.executable, "-c", code),
        env=dict(os.environ),
        cwd=folder,
        log_file=folder / "sample.log",
        pid_file=folder / "sample.pid",
    )


def _wait_for_line(path: Path) -> str:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, "the program wrote nothing"
        time.sleep(0.02)
    return path.read_text().strip()


def _is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_a_killed_child_takes_its_own_children_with_it(tmp_path: Path) -> None:
    child = Child(_program(tmp_path, _PARENT_OF_TWO))
    child.spawn()
    grandchild = int(_wait_for_line(tmp_path / "sample.log"))
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)

    assert child.wait(seconds=10)

    assert child.exit_status() == "killed by SIGKILL"
    assert _is_gone(grandchild)
    assert not (tmp_path / "sample.pid").exists()


def test_a_child_that_ignores_the_stop_signal_is_killed(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    child = Child(_program(tmp_path, deaf))
    child.spawn()
    _wait_for_line(tmp_path / "sample.log")

    assert child.stop(seconds=0.3) is False

    assert child.exit_status() == "killed by SIGKILL"


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import os, sys, time\nfrom pathlib import Path\n"
                "from agentx.embedded.process import Child, Program\n"
                f"folder = Path({str(tmp_path)!r})\n"
                f"child = Child(Program(name='sample', argv=(sys.executable, '-c', {_SLEEP!r}), env=dict(os.environ),"
                " cwd=folder, log_file=folder / 'sample.log'))\n"
                "child.spawn()\nprint(child.pid, flush=True)\ntime.sleep(600)"
            ),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert parent.stdout is not None
    child_pid = int(parent.stdout.readline())
    assert psutil.pid_exists(child_pid)

    parent.kill()
    parent.communicate()

    assert _is_gone(child_pid)


def test_a_leftover_is_recognised_and_ended(tmp_path: Path) -> None:
    child = Child(_program(tmp_path, _SLEEP))
    child.spawn()
    pid_file = tmp_path / "sample.pid"
    found = find_leftover(pid_file)
    assert found is not None
    assert found.pid == child.pid

    assert end_leftover(pid_file, stop_signal=signal.SIGTERM, seconds=10) is True

    assert child.exit_status() == "not running" or not child.is_running()
    assert not pid_file.exists()


def test_another_program_with_the_recorded_number_is_left_alone(tmp_path: Path) -> None:
    child = Child(_program(tmp_path, _SLEEP))
    child.spawn()
    pid_file = tmp_path / "sample.pid"
    recorded = json.loads(pid_file.read_text())

    for change in ({"started": recorded["started"] - 60}, {"argv": ["postgres", "-D", "elsewhere"]}):
        pid_file.write_text(json.dumps({**recorded, **change}))
        assert end_leftover(pid_file, stop_signal=signal.SIGTERM, seconds=1) is False
        assert child.is_running()

    child.kill()


def test_an_unreadable_pid_file_is_removed_in_silence(tmp_path: Path) -> None:
    pid_file = tmp_path / "sample.pid"
    pid_file.write_text("not json")

    assert end_leftover(pid_file, stop_signal=signal.SIGTERM, seconds=1) is False

    assert not pid_file.exists()


def test_four_earlier_logs_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "web.log"

    for number in range(7):
        rotate_log(log)
        log.write_text(f"run {number}\n")

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "web.log": "run 6\n",
        "web.log.1": "run 5\n",
        "web.log.2": "run 4\n",
        "web.log.3": "run 3\n",
        "web.log.4": "run 2\n",
    }


def test_the_tail_of_a_log_is_its_last_lines_that_say_something(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    log.write_text("".join(f"line {number}\n\n" for number in range(20_000)))

    assert read_log_tail(log, lines=2) == ("line 19998", "line 19999")
    assert read_log_tail(tmp_path / "none.log") == ()
