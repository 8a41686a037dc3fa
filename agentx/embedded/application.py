"""The application's own processes: web, runner, worker with beat, and the commands run once at the start."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentx.embedded.data_folder import DataFolder
from agentx.embedded.errors import ServiceFailed
from agentx.embedded.process import Child, Program, end_leftover, read_log_tail, rotate_log

ROOT = Path(__file__).resolve().parents[2]
_SETTLED_SECONDS = 1.0  # a process without an interface counts as started when it has not ended by then


class AppProcess:
    """One process of the application, as a ``Service``. ``probe`` says whether it is ready; without one, time does."""

    url = ""

    def __init__(
        self,
        *,
        name: str,
        label: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        folder: DataFolder,
        start_seconds: float = 60.0,
        stop_seconds: float = 10.0,
        probe: Callable[[], bool] | None = None,
    ) -> None:
        self.name = name
        self.label = label
        self.start_seconds = start_seconds
        self.stop_seconds = stop_seconds
        self._probe = probe
        self._spawned_at = 0.0
        self.child = Child(
            Program(
                name=name,
                argv=tuple(argv),
                env=env,
                cwd=ROOT,
                log_file=folder.log / f"{name}.log",
                pid_file=folder.run / f"{name}.pid",
            )
        )

    def prepare(self) -> None:
        """End the leftover of a killed run, however long its orderly end takes."""
        pid_file = self.child.program.pid_file
        if pid_file is not None:
            end_leftover(pid_file, stop_signal=signal.SIGTERM, seconds=self.stop_seconds)

    def spawn(self) -> None:
        self._spawned_at = time.monotonic()
        self.child.spawn()

    def is_ready(self) -> bool:
        if self._probe is not None:
            return self._probe()
        return self.child.is_running() and time.monotonic() - self._spawned_at > _SETTLED_SECONDS

    def clean_up(self) -> None:
        """Nothing outlives the process."""


@dataclass(frozen=True, kw_only=True)
class HttpAnswer:
    """``status`` 0 when nobody answered; ``body`` holds at most 2,000 characters."""

    status: int
    body: str


def http_get(*, host: str, port: int, path: str) -> HttpAnswer:
    """One GET on loopback with a limit of five seconds; never raises for what the network does."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return HttpAnswer(status=answer.status, body=answer.read(2000).decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException) as error:
        return HttpAnswer(status=0, body=str(error))
    finally:
        connection.close()


# glibc keeps a heap for each of up to eight threads a core, and what a burst of turns has freed in one is no use to another.
MEMORY: Mapping[str, str] = {"MALLOC_ARENA_MAX": "2"}


def build_app_processes(
    *, folder: DataFolder, env: Mapping[str, str], host: str, port: int, drain_seconds: float
) -> list[AppProcess]:
    """Web, runner and worker, in the order in which they are reported."""
    env = {**MEMORY, **env}
    probe_host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    web = AppProcess(
        name="web",
        label="web",
        argv=_web_command(host=host, port=port, proxied=env.get("TRUST_PROXY_HEADERS", "")),
        env=env,
        folder=folder,
        stop_seconds=10.0,  # uvicorn itself gives open requests five
        probe=lambda: http_get(host=probe_host, port=port, path="/api/health").status == 200,
    )
    runner = AppProcess(
        name="runner",
        label="runner",
        argv=(sys.executable, str(ROOT / "manage.py"), "run_turns"),
        # The name outlives the process: a restarted runner settles at once what its dead predecessor had claimed.
        env={**env, "AGENTX_RUNNER_ID": env.get("AGENTX_RUNNER_ID") or f"runner-1@{folder.digest}"},
        folder=folder,
        stop_seconds=drain_seconds + 5,
    )
    worker = AppProcess(
        name="worker",
        label="worker with beat",
        argv=_worker_command(folder),
        env=env,
        folder=folder,
        stop_seconds=15.0,
    )
    return [web, runner, worker]


def _web_command(*, host: str, port: int, proxied: str) -> tuple[str, ...]:
    # By default uvicorn believes X-Forwarded-For from loopback, which any local program could then write.
    believed = proxied.strip().lower() in ("1", "true", "yes", "on")
    return (
        *(sys.executable, "-m", "uvicorn", "agentx.asgi:application", "--host", host, "--port", str(port)),
        *("--loop", "uvloop", "--http", "httptools", "--ws", "websockets", "--ws-max-size", "1048576"),
        *("--timeout-graceful-shutdown", "5", "--no-access-log"),
        "--proxy-headers" if believed else "--no-proxy-headers",
    )


def _worker_command(folder: DataFolder) -> tuple[str, ...]:
    return (
        *(sys.executable, "-m", "celery", "-A", "agentx", "worker", "--beat", "--concurrency", "1"),
        *("--schedule", str(folder.run / "beat-schedule"), "--hostname", f"worker-1@{folder.digest}"),
        *("--without-gossip", "--without-mingle", "--loglevel", "INFO"),
    )


def clear_metrics(folder: Path) -> None:
    """Remove the figures of processes that are gone, while none that writes any is running."""
    for file in folder.glob("*.db"):
        file.unlink(missing_ok=True)


def run_command(
    *arguments: str,
    folder: DataFolder,
    env: Mapping[str, str],
    seconds: float,
    tick: Callable[[], None],
) -> None:
    """Run ``manage.py`` once, logged to a file named after the command. ``tick`` may raise to give up.

    Raises :class:`ServiceFailed` with the end of the log when it fails.
    """
    name = arguments[0]
    log_file = folder.log / f"{name}.log"
    rotate_log(log_file)
    argv = (sys.executable, str(ROOT / "manage.py"), *arguments)
    child = Child(Program(name=name, argv=argv, env=env, cwd=ROOT, log_file=log_file))
    child.spawn()
    try:
        deadline = time.monotonic() + seconds
        while child.is_running() and time.monotonic() < deadline:
            tick()
            time.sleep(0.02)
    finally:
        child.stop(seconds=5)
    if child.exit_status() != "exit code 0":
        raise ServiceFailed(
            f"`manage.py {' '.join(arguments)}` failed ({child.exit_status()}); its log is {log_file}",
            log_tail=read_log_tail(log_file),
        )


def capture_command(*arguments: str, env: Mapping[str, str], seconds: float) -> str:
    """The standard output of a short ``manage.py`` command, kept out of every log since it may be a secret."""
    argv = (sys.executable, str(ROOT / "manage.py"), *arguments)
    try:
        done = subprocess.run(
            argv,
            env=dict(env),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise ServiceFailed(f"`manage.py {arguments[0]}` did not end within {seconds:.0f} s") from None
    if done.returncode != 0:
        tail = tuple(line for line in done.stderr.splitlines() if line.strip())[-12:]
        raise ServiceFailed(f"`manage.py {arguments[0]}` failed (exit code {done.returncode})", log_tail=tail)
    return done.stdout
