"""One child process: started in a session of its own, logged to a file, found again after a crash, stopped for sure.

A session of its own keeps Ctrl-C in the terminal away from the child, so that the supervisor alone decides the order
in which things stop. The pid file makes a leftover of a killed run recognisable: by pid *and* start time *and* command.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

LAUNCHER = Path(__file__).with_name("launch.py")
KEPT_LOGS = 4  # earlier runs of each log, beside the current one
_START_TIME_TOLERANCE = 2.0  # seconds; the system clock may be corrected between two readings
# The kernel takes well under a millisecond for it; a hundred times that on a busy machine.
_EXEC_TRIES = 10


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The user a child becomes. ``read_search``: keep the right to walk through folders closed to that user."""

    uid: int
    gid: int
    read_search: bool = False


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to run and how to end it.

    ``env`` is the whole environment. ``stop_signal`` asks for an orderly end; the kernel sends the same one when the
    parent dies. ``log_file`` receives stdout and stderr. ``pid_file`` None: not recorded.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    log_file: Path
    pid_file: Path | None = None
    identity: Identity | None = None
    stop_signal: int = signal.SIGTERM


class Child:
    """A :class:`Program` that can be running or not. Use from one thread."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs, else None."""
        return self._popen.pid if self._popen is not None and self.is_running() else None

    def spawn(self) -> None:
        """Start the program; returns at once. The log file is appended to."""
        program = self.program
        program.log_file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(program.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._popen = subprocess.Popen(
                [*self._launch_options(), "--", *program.argv],
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env=dict(program.env),
                cwd=program.cwd,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        if program.pid_file is not None:
            _write_pid_file(program.pid_file, pid=self._popen.pid, argv=program.argv)

    def _launch_options(self) -> list[str]:
        options = [sys.executable, "-I", "-S", str(LAUNCHER), f"--parent={os.getpid()}"]
        # The kernel ties the death signal to the *thread* that forked: only the main one lives long enough.
        if threading.current_thread() is threading.main_thread():
            options.append(f"--death-signal={int(self.program.stop_signal)}")
        if self.program.identity is not None:
            options.append(f"--user={self.program.identity.uid}:{self.program.identity.gid}")
            if self.program.identity.read_search:
                options.append("--read-search")
        return options

    def is_running(self) -> bool:
        """Whether the child itself runs. When it has ended, what is left of its process group is killed."""
        if self._popen is None:
            return False
        if self._popen.returncode is None:
            # WNOWAIT leaves the zombie in place, so its group id cannot belong to anybody else yet.
            with suppress(ChildProcessError):
                if os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.poll()
            if self.program.pid_file is not None:
                self.program.pid_file.unlink(missing_ok=True)
        return False

    def has_started(self) -> bool:
        """Whether it was ever spawned."""
        return self._popen is not None

    def exit_status(self) -> str:
        """How it ended, for people: ``exit code 1``, ``killed by SIGKILL``."""
        code = self._popen.returncode if self._popen is not None else None
        if code is None:
            return "not running"
        if code >= 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"

    def send(self, number: int) -> None:
        """Send a signal to the child alone; nothing happens when it has ended."""
        if self._popen is not None and self.is_running():
            self._popen.send_signal(number)

    def wait(self, *, seconds: float) -> bool:
        """Wait for the end; True when it has ended."""
        deadline = time.monotonic() + seconds
        while self.is_running():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        return True

    def stop(self, *, seconds: float) -> bool:
        """Ask it to end, wait, then kill what is left. True when it ended by itself within ``seconds``."""
        self.send(self.program.stop_signal)
        if self.wait(seconds=seconds):
            return True
        self.kill()
        return False

    def kill(self) -> None:
        """End the child and its process group at once."""
        if self._popen is None or not self.is_running():
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self.wait(seconds=10)


def read_log_tail(path: Path, *, lines: int = 12) -> tuple[str, ...]:
    """The last ``lines`` non-empty lines of a log, oldest first; empty when there is none. Reads 16 kB at most."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 16_384))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(line for line in text.splitlines() if line.strip())[-lines:]


def rotate_log(path: Path) -> None:
    """Move an earlier run's log aside: ``name.log`` → ``name.log.1`` … ``.4``; the oldest is dropped."""
    if not path.exists():
        return
    for number in range(KEPT_LOGS, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        newer = path if number == 1 else path.with_name(f"{path.name}.{number - 1}")
        if newer.exists():
            newer.replace(older)


def _write_pid_file(path: Path, *, pid: int, argv: Sequence[str]) -> None:
    try:
        started = psutil.Process(pid).create_time()
    except psutil.Error:
        return
    path.write_text(json.dumps({"pid": pid, "started": started, "argv": list(argv)}))


def find_leftover(pid_file: Path) -> psutil.Process | None:
    """The process a killed run recorded in ``pid_file``, if it still runs and really is that one."""
    try:
        recorded = json.loads(pid_file.read_text())
        pid, started, argv = int(recorded["pid"]), float(recorded["started"]), list(recorded["argv"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    try:
        process = psutil.Process(pid)
        same_time = abs(process.create_time() - started) <= _START_TIME_TOLERANCE
        # The launcher's own command line ends with the program's, so both stages are recognised.
        same_command = _command_line(process)[-len(argv) :] == argv
        is_alive = process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return None
    return process if same_time and same_command and is_alive else None


def _command_line(process: psutil.Process) -> list[str]:
    """Its arguments. A process that is just becoming another program has none for a moment, and is asked again."""
    for _ in range(_EXEC_TRIES):
        if found := process.cmdline():
            return found
        time.sleep(0.01)
    return []


def end_leftover(pid_file: Path, *, stop_signal: int, seconds: float) -> bool:
    """End what a killed run left behind, orderly first. True when there was something; the file is gone after."""
    process = find_leftover(pid_file)
    if process is not None:
        with suppress(psutil.Error):
            process.send_signal(stop_signal)
        _, alive = psutil.wait_procs([process], timeout=seconds)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # it led a group of its own: its children go with it
        psutil.wait_procs(alive, timeout=10)
    pid_file.unlink(missing_ok=True)
    return process is not None
