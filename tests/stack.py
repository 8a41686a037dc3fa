"""A running product for tests: web process and runner (worker on demand) with a scripted model, on throw-away data.

The processes are real and separate, so that a test can kill any of them. Tests speak to them over HTTP and WebSocket, and
look at the database with plain SQL.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from agentx.embedded.application import MEMORY
from agentx.embedded.valkey import EmbeddedValkey
from tests.scripted_model import ScriptedModel

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 30.0

FAST = {
    "RUN_HEARTBEAT_SECONDS": "0.5",
    "RUN_LEASE_SECONDS": "6",
    "RUN_CHECKPOINT_SECONDS": "0.2",
    "RUN_DRAIN_SECONDS": "1",
    "MODEL_STALL_SECONDS": "2",
    "SLOW_MODEL_FIRST_PING_SECONDS": "0.3",
    "SLOW_MODEL_PING_INTERVAL_SECONDS": "0.3",
    "RATE_LIMIT_WAIT_SCHEDULE": "0.3,0.6",
}


def wait_for(condition: Callable[[], Any], *, seconds: float = PATIENCE, what: str = "the condition") -> Any:
    """Poll until ``condition`` gives something true, and return it; fails the test after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {seconds} s")
        time.sleep(0.05)


_MAKE_USER = """
WITH made AS (
    INSERT INTO accounts_user (username, password, is_superuser, first_name, last_name, email, is_staff, is_active,
        date_joined, display_name)
    VALUES (%s, '!', false, '', '', '', false, true, now(), '') RETURNING id
)
INSERT INTO accounts_apitoken (user_id, name, scope, prefix, digest, created_at)
SELECT id, 'tests', 'write', %s, %s, now() FROM made
"""


@dataclass
class Stack:
    """The processes and how to reach them."""

    folder: Path
    database_url: str
    model: ScriptedModel
    valkey: EmbeddedValkey
    port: int
    extra_env: dict[str, str] = field(default_factory=dict)
    children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "COV_"))},
            **FAST,
            "DJANGO_SETTINGS_MODULE": "agentx.settings.dev",
            "DATABASE_URL": self.database_url,
            "DATABASE_POOL_SIZE": "4",
            "REDIS_URL": self.valkey.url,
            "LLM_BASE_URL": self.model.base_url,
            "LLM_MODEL": "scripted",
            "TITLES_BY_MODEL": "false",  # they would take the answers that a test has laid out
            "CONTEXT_WINDOW_TOKENS": "32768",
            "SECRET_KEY": "only-for-tests-and-long-enough-to-sign-with",
            "AGENTX_DATA_DIR": str(self.folder),
            "AGENTX_PORT": str(self.port),
            "AGENTX_RUNNER_ID": "runner-under-test",
            # Any connection that leaves the machine fails, in every process of the product.
            "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "no_egress"), str(ROOT)]),
            **MEMORY,
            **self.extra_env,
        }

    def manage(self, *arguments: str) -> str:
        """Run a management command to its end and return what it printed."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments], cwd=ROOT, env=self.env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str) -> None:
        """Start one process of the product: ``web``, ``runner`` or ``worker``."""
        log_file = (self.folder / f"{name}.log").open("ab")
        self.children[name] = subprocess.Popen(
            self._commands()[name],
            cwd=ROOT,
            env=self.env,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log_file.close()
        if name == "web":
            wait_for(self._web_answers, what="the web process")
        elif name == "runner":
            wait_for(lambda: "runner_started" in self.log("runner"), what="the runner")

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to one process and its children, and wait for its end unless it is only frozen."""
        child = self.children[name]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        if number not in (signal.SIGSTOP, signal.SIGCONT):
            child.wait(20)

    def restart(self, name: str) -> None:
        """Start a killed process again, with a fresh log."""
        with contextlib.suppress(FileNotFoundError):
            (self.folder / f"{name}.log").rename(self.folder / f"{name}.{uuid4().hex[:6]}.log")
        self.start(name)

    def valkey_kill(self) -> None:
        """Kill Valkey as the kernel would; ``valkey.start`` brings it back with its data."""
        assert self.valkey.pid is not None
        os.kill(self.valkey.pid, signal.SIGKILL)
        wait_for(lambda: not self.valkey.alive(), what="Valkey to be gone")

    def stop(self) -> None:
        for name in self.children:
            self.kill(name)

    def log(self, name: str) -> str:
        """What a process has logged since its (re)start."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of a query on the product's database."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return connection.execute(query, values).fetchall()  # type: ignore[arg-type]

    def sql_run(self, statement: str, *values: Any) -> None:
        """Carry out a statement on the product's database."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute(statement, values)  # type: ignore[arg-type]

    def client(self) -> Client:
        """A new user with an API token, as a client. By SQL: two management commands take seconds."""
        username, secret = f"u{uuid4().hex[:10]}", f"agx_{secrets.token_urlsafe(32)}"
        self.sql_run(_MAKE_USER, username, secret[:8], hashlib.sha256(secret.encode()).hexdigest())
        return Client(self, username, secret)

    def _commands(self) -> dict[str, list[str]]:
        python = sys.executable
        return {
            "web": [
                *(python, "-m", "uvicorn", "agentx.asgi:application", "--host", "127.0.0.1"),
                *(
                    "--port",
                    str(self.port),
                    "--log-level",
                    "warning",
                    "--ws-max-size",
                    "1048576",
                    "--no-proxy-headers",
                ),
                *("--timeout-graceful-shutdown", "2"),
            ],
            "runner": [python, "manage.py", "run_turns"],
            "worker": [
                *(python, "-m", "celery", "-A", "agentx", "worker", "-B", "--concurrency", "1"),
                *("-s", str(self.folder / "beat"), "--loglevel", "warning"),
            ],
        }

    def _web_answers(self) -> bool:
        if self.children["web"].poll() is not None:
            raise AssertionError(f"the web process ended:\n{self.log('web')[-3000:]}")
        try:
            return httpx.get(f"{self.url}/api/health", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False


class Client:
    """One user's view of the product over HTTP."""

    def __init__(self, stack: Stack, username: str, token: str) -> None:
        self.stack, self.username, self.token = stack, username, token
        self.headers = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=stack.url, headers=self.headers, timeout=30)

    def conversation(self) -> str:
        """A new conversation's id."""
        made = self.http.post("/api/conversations", json={})
        assert made.status_code == 201, made.text
        return made.json()["id"]

    def send(self, conversation: str, content: str, **fields: Any) -> httpx.Response:
        return self.http.post(f"/api/conversations/{conversation}/turns", json={"content": content, **fields})

    def accepted(self, conversation: str, content: str) -> str:
        """Send and return the run's id."""
        answer = self.send(conversation, content)
        assert answer.status_code == 202, answer.text
        return answer.json()["run"]["id"]

    def run(self, run_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/api/runs/{run_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ended(self, run_id: str, *, seconds: float = PATIENCE) -> dict[str, Any]:
        """The run once it has ended."""

        def look() -> dict[str, Any] | None:
            run = self.run(run_id)
            return run if run["status"] not in ("queued", "running") else None

        return wait_for(look, seconds=seconds, what=f"run {run_id} to end")

    def messages(self, conversation: str) -> list[dict[str, Any]]:
        return self.http.get(f"/api/conversations/{conversation}/messages").json()["results"]

    def events(self, run_id: str, *, after: int = 0, timeout: float = PATIENCE) -> list[dict[str, Any]]:
        """Everything the run's event stream sends until it closes, events and frames alike."""
        return list(self.events_live(run_id, after=after, timeout=timeout))

    def events_live(
        self, run_id: str, *, after: int = 0, timeout: float = PATIENCE
    ) -> Iterator[dict[str, Any]]:
        """The same one by one, as they come."""
        path = f"/api/runs/{run_id}/events"
        with self.http.stream("GET", path, params={"after": after}, timeout=timeout) as answer:
            assert answer.status_code == 200, answer.read()
            yield from sse_events(answer.iter_lines())


def sse_events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The JSON of each server-sent event, up to and including ``close`` or ``run_missing``."""
    for line in lines:
        if line.startswith("data:"):
            event = json.loads(line.removeprefix("data:"))
            yield event
            if event["type"] in ("close", "run_missing"):
                return


def answer_text(events: list[dict[str, Any]]) -> str:
    """The text that a listener ends up with, by the rules of the protocol."""
    text = ""
    for event in events:
        if event["type"] == "delta":
            text += event["data"]["text"]
        elif event["type"] == "reset":
            text = event["partial"]["text"]
        elif event["type"] == "message":
            text = event["data"]["message"]["content"]
    return text


_TEMPLATE = f"stack_template_{os.getpid()}"


def _database_create(server: str, name: str) -> None:
    """A migrated database: the first is migrated, the others are copies of it."""
    with psycopg.connect(server, autocommit=True) as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_TEMPLATE]).fetchone()
        if found is None:
            connection.execute(f"CREATE DATABASE {_TEMPLATE}")  # type: ignore[arg-type]
            env = os.environ | {"DATABASE_URL": server.replace("/agentx?", f"/{_TEMPLATE}?")}
            command = [sys.executable, "manage.py", "migrate", "--noinput"]
            subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}")  # type: ignore[arg-type]


def _database_drop(server: str, name: str) -> bool:
    """Whether it is gone: while autovacuum is at work in it, which only a superuser may end, it is not."""
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]
        return True
    return False


@contextlib.contextmanager
def running_stack(
    folder: Path, *, processes: tuple[str, ...] = ("web", "runner"), **env: str
) -> Iterator[Stack]:
    """A migrated database of its own, a Valkey of its own, a scripted model, and the product's processes."""
    from agentx.embedded.service import find_free_port

    name = f"stack_{uuid4().hex[:12]}"
    server = os.environ["DATABASE_URL"]
    _database_create(server, name)
    valkey = EmbeddedValkey(data_dir=folder / "valkey", log_file=folder / "valkey.log")
    valkey.start()
    with ScriptedModel() as model:
        stack = Stack(
            folder=folder,
            database_url=server.replace("/agentx?", f"/{name}?"),
            model=model,
            valkey=valkey,
            port=find_free_port(),
            extra_env=env,
        )
        try:
            for process in processes:
                stack.start(process)
            yield stack
        finally:
            stack.stop()
            valkey.stop()
            wait_for(lambda: _database_drop(server, name), what="the database to be dropped")
