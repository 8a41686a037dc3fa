"""The whole product on one machine: which services there are, in which order, and what is said about them.

:func:`run_stack` reads as the table of contents of ``manage.py up``.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from agentx import __version__
from agentx.embedded.application import (
    ROOT,
    build_app_processes,
    capture_command,
    clear_metrics,
    http_get,
    run_command,
)
from agentx.embedded.console import Console
from agentx.embedded.data_folder import DataFolder, explain_os_error
from agentx.embedded.errors import ConfigurationProblem, EmbeddedError, ServiceFailed
from agentx.embedded.llama import MODEL_ID, EmbeddedLlama
from agentx.embedded.postgres import EmbeddedPostgres
from agentx.embedded.process import rotate_log
from agentx.embedded.service import EmbeddedService, find_port_problem
from agentx.embedded.supervisor import StopRequested, Supervisor
from agentx.embedded.valkey import EmbeddedValkey

READY_SECONDS = 90.0  # from the last start of a process to the first positive answer of /api/ready
MIGRATE_SECONDS = 1800.0
_STOP_ORDER = (("web", "runner", "worker"), ("model",), ("valkey",), ("postgres",))
_SHARED_VARIABLES = ("DATABASE_URL", "REDIS_URL", "LLM_BASE_URL", "LLM_MODEL", "LLM_API_KEY", "SECRET_KEY")


@dataclass(frozen=True, kw_only=True)
class StackOptions:
    """``environ``: what is configured from outside, such as ``DATABASE_URL``. ``drain_seconds``: what the runner gets."""

    data_dir: Path
    host: str
    port: int
    drain_seconds: float
    environ: Mapping[str, str]

    @property
    def url(self) -> str:
        shown = (
            "127.0.0.1"
            if self.host in ("0.0.0.0", "::")
            else f"[{self.host}]"
            if ":" in self.host
            else self.host
        )
        return f"http://{shown}:{self.port}"


@dataclass(kw_only=True)
class _Stack:
    """What is known while the stack runs."""

    options: StackOptions
    folder: DataFolder
    console: Console
    supervisor: Supervisor
    services: list[EmbeddedService] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    sign_in_link: str = ""
    started_at: str = ""


def run_stack(options: StackOptions, *, console: Console) -> int:
    """Start everything, keep it alive until told to stop, stop it. Returns the exit code: 0, 1 or 2."""
    folder = DataFolder(options.data_dir)
    stack = _Stack(options=options, folder=folder, console=console, supervisor=Supervisor(console=console))
    stack.supervisor.on_change = lambda: _announce_ready(stack)
    code = 0
    with stack.supervisor.catch_signals():
        try:
            _check_port(options, folder)
            _start_services(stack)
            _migrate(stack)
            _start_application(stack)
            _wait_for_ready(stack)
            _sign_in(stack)
            _tell(stack)
            stack.supervisor.watch()
        except StopRequested:
            pass
        except EmbeddedError as error:
            code = _explain(console, error)
        except OSError as error:
            console.fail(explain_os_error(error))
            code = 1
        finally:
            _stop(stack)
    return code


def _check_port(options: StackOptions, folder: DataFolder) -> None:
    """The folder first: a second copy is told who holds it, rather than that its port is taken."""
    folder.open(url=options.url)
    if options.port > 65_535:
        raise ConfigurationProblem(f"AGENTX_PORT={options.port} must be at most 65535")
    problem = find_port_problem(port=options.port, host=options.host)
    if problem == errno.EADDRINUSE:
        other = options.port + 1 if options.port < 65_535 else 8001
        raise ConfigurationProblem(
            f"port {options.port} on {options.host} is in use by another program: stop it, or choose another port, "
            f"as in `AGENTX_PORT={other} make run`"
        )
    if problem == errno.EACCES:
        raise ConfigurationProblem(
            f"port {options.port} is reserved for root: set AGENTX_PORT to 1024 or more"
        )
    if problem:
        raise ConfigurationProblem(f"AGENTX_HOST={options.host} is not an address of this machine")


def _start_services(stack: _Stack) -> None:
    """PostgreSQL, Valkey and the model, each only when the environment does not name one."""
    environ, folder = stack.options.environ, stack.folder
    env = {**environ}
    kinds: dict[str, type[EmbeddedPostgres] | type[EmbeddedValkey] | type[EmbeddedLlama]] = {
        "DATABASE_URL": EmbeddedPostgres,
        "REDIS_URL": EmbeddedValkey,
        "LLM_BASE_URL": EmbeddedLlama,
    }
    own: dict[str, EmbeddedService] = {}
    for variable, kind in kinds.items():
        if environ.get(variable):
            stack.console.done(f"{variable} is configured; nothing is started for it")
            continue
        log_file = folder.log / f"{kind.name}.log"
        rotate_log(log_file)
        own[variable] = kind(data_dir=folder.root / kind.name, runtime_dir=folder.run, log_file=log_file)
    stack.services = list(own.values())
    stack.supervisor.start(stack.services, may_give_up=False)
    env |= {variable: service.url for variable, service in own.items()}
    if "LLM_BASE_URL" in own:
        env["LLM_MODEL"] = MODEL_ID
    env["SECRET_KEY"] = environ.get("SECRET_KEY") or folder.secret_key()
    env |= {
        "AGENTX_DATA_DIR": str(folder.root),
        "AGENTX_PORT": str(stack.options.port),
        "PYTHONUNBUFFERED": "1",
    }
    env["AGENTX_HOST"] = stack.options.host
    stack.env = env
    folder.announce_services({name: env[name] for name in _SHARED_VARIABLES if env.get(name)})


def _migrate(stack: _Stack) -> None:
    began = time.monotonic()
    stack.console.begin("migrations")
    run_command(
        *("migrate", "--noinput"),
        folder=stack.folder,
        env=stack.env,
        seconds=MIGRATE_SECONDS,
        tick=stack.supervisor.check_stop,
    )
    stack.console.done("migrations", seconds=time.monotonic() - began)


def _start_application(stack: _Stack) -> None:
    clear_metrics(ROOT / (stack.env.get("AGENTX_METRICS_DIR") or stack.folder.run / "metrics"))
    processes = build_app_processes(
        folder=stack.folder,
        env=stack.env,
        host=stack.options.host,
        port=stack.options.port,
        drain_seconds=stack.options.drain_seconds,
    )
    for process in processes:
        rotate_log(process.child.program.log_file)
    stack.supervisor.start(processes, may_give_up=True)


def _wait_for_ready(stack: _Stack) -> None:
    """Until ``GET /api/ready`` says 200; its own words are the reason when it does not."""
    host = "127.0.0.1" if stack.options.host in ("0.0.0.0", "::") else stack.options.host
    began = time.monotonic()
    stack.console.begin("ready")
    while (answer := http_get(host=host, port=stack.options.port, path="/api/ready")).status != 200:
        stack.supervisor.check_stop()
        if time.monotonic() - began > READY_SECONDS:
            said = " ".join(answer.body.split())[:300]
            raise ServiceFailed(
                f"the site was not ready within {READY_SECONDS:.0f} s (it says {answer.status}: {said}); "
                f"logs are in {stack.folder.log}"
            )
        time.sleep(0.1)
    stack.console.done("ready", seconds=time.monotonic() - began)


def _sign_in(stack: _Stack) -> None:
    said = capture_command("sign_in_link", "--json", env=stack.env, seconds=60)
    try:
        stack.sign_in_link = str(json.loads(said.strip().splitlines()[-1])["url"])
    except (ValueError, LookupError, TypeError):
        raise ServiceFailed("`manage.py sign_in_link --json` printed no link") from None


def _tell(stack: _Stack) -> None:
    stack.started_at = datetime.now(UTC).isoformat(timespec="seconds")
    _announce_ready(stack)
    stack.console.say("")
    stack.console.say(f"AgentX {__version__} is at       {stack.options.url}")
    stack.console.say(f"Sign in once with       {stack.sign_in_link}")
    stack.console.say(f"Data and logs are in    {stack.folder.root}")
    stack.console.say("Press Ctrl-C to stop.")


def _announce_ready(stack: _Stack) -> None:
    if not stack.started_at:
        return
    pids = (
        dict.fromkeys(("web", "runner", "worker", "postgres", "valkey", "model"), None)
        | stack.supervisor.pids()
    )
    stack.folder.announce_ready(
        {
            "url": stack.options.url,
            "sign_in_link": stack.sign_in_link,
            "pids": {"supervisor": os.getpid(), **pids},
            "versions": _versions(stack.services),
            "started_at": stack.started_at,
        }
    )


def _versions(services: list[EmbeddedService]) -> dict[str, str | None]:
    """Of what runs here; None for what is configured from outside."""
    found: dict[str, str | None] = {"agentx": __version__, "python": platform.python_version()}
    for package in ("django", "celery", "uvicorn"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    found |= dict.fromkeys(("postgres", "pgvector", "valkey", "model"), None)
    for service in services:
        found[service.name] = service.version
        if isinstance(service, EmbeddedPostgres):
            found["pgvector"] = service.pgvector_version
    return found


def _explain(console: Console, error: EmbeddedError) -> int:
    console.fail(str(error))
    for line in getattr(error, "log_tail", ()):
        console.say(f"    {line[:300]}")
    return error.exit_code


def _stop(stack: _Stack) -> None:
    stack.started_at = ""
    if stack.supervisor.pids():
        stack.console.say("stopping …")
        stack.supervisor.stop(_STOP_ORDER)
        stack.console.done("stopped")
    with suppress(OSError):
        stack.folder.close()
