"""``manage.py up`` as a person or a script meets it: one command, one folder, everything there and everything gone again.

The model is configured from outside here, so that it is not started; nothing in these tests asks it anything.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from agentx.embedded.service import find_free_port

pytestmark = pytest.mark.flow

_ROOT = Path(__file__).resolve().parents[3]
_PATIENCE = 90.0  # seconds for anything that has to happen; a busy machine is slow, not wrong


class _Up:
    """One ``manage.py up`` on a data folder."""

    def __init__(self, folder: Path, *, port: int) -> None:
        self.folder, self.port = folder, port
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up"],
            cwd=_ROOT,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def env(self) -> dict[str, str]:
        configured = (
            "DATABASE_URL",
            "REDIS_URL",
            "AGENTX_TEST",
            "PYTEST",
            "DJANGO_SETTINGS_MODULE",
            "SECRET_KEY",
        )
        kept = {key: value for key, value in os.environ.items() if not key.startswith(configured)}
        return {
            **kept,
            "AGENTX_DATA_DIR": str(self.folder),
            "AGENTX_PORT": str(self.port),
            "LLM_BASE_URL": "http://127.0.0.1:9/v1",
            "RUN_DRAIN_SECONDS": "2",
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def facts(self) -> dict[str, Any]:
        return json.loads((self.folder / "run" / "ready.json").read_text())

    def wait_ready(self) -> dict[str, Any]:
        """The content of ready.json once it is there."""
        deadline = time.monotonic() + _PATIENCE
        while not self._announced():
            assert self.process.poll() is None, self.output()
            assert time.monotonic() < deadline, "not ready in time"
            time.sleep(0.05)
        return self.facts()

    def _announced(self) -> bool:
        """Whether ready.json is there and is ours: a killed run leaves one until the next has taken the folder."""
        try:
            return self.facts()["pids"]["supervisor"] == self.process.pid
        except FileNotFoundError:
            return False

    def output(self) -> str:
        """Everything it printed; waits for its end."""
        return self.process.communicate(timeout=_PATIENCE)[0]

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: int) -> str:
        self.process.send_signal(number)
        return self.output()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Up]:
    """A ready stack; tests that use it leave it ready."""
    up = _Up(tmp_path_factory.mktemp("up"), port=find_free_port())
    up.wait_ready()
    yield up
    up.end(signal.SIGTERM)


def _assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert alive == []


def test_the_ready_file_names_everything_that_runs(up: _Up) -> None:
    facts = up.facts()

    assert facts["url"] == up.url
    assert facts["pids"]["supervisor"] == up.process.pid
    assert facts["pids"]["model"] is None
    running = {name: pid for name, pid in facts["pids"].items() if pid is not None}
    assert sorted(running) == ["postgres", "runner", "supervisor", "valkey", "web", "worker"]
    assert all(psutil.pid_exists(pid) for pid in running.values())
    assert facts["versions"]["postgres"].startswith("18.")
    assert facts["versions"]["pgvector"].startswith("0.")
    assert facts["versions"]["valkey"].startswith("8.")
    assert httpx.get(f"{up.url}/api/ready").status_code == 200
    assert facts["sign_in_link"].startswith(f"{up.url}/sign-in/")


def test_a_command_in_another_terminal_finds_the_same_database(up: _Up) -> None:
    env = {key: value for key, value in up.env.items() if key != "LLM_BASE_URL"}

    done = subprocess.run(
        [sys.executable, "manage.py", "sign_in_link", "--json"],
        cwd=_ROOT,
        env=env,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    link = json.loads(done.stdout)["url"]
    assert link != up.facts()["sign_in_link"]
    answer = httpx.get(link)
    assert (answer.status_code, answer.headers.get("location")) == (302, "/")
    assert "sessionid" in answer.cookies


def test_a_second_copy_is_refused_in_one_line(up: _Up) -> None:
    second = _Up(up.folder, port=find_free_port())

    assert second.output() == (
        f"error: {up.folder} is in use by another copy (process {up.process.pid}, {up.url}): "
        "use that one, stop it, or set another AGENTX_DATA_DIR\n"
    )
    assert second.process.returncode == 2
    assert httpx.get(f"{up.url}/api/ready").status_code == 200


@pytest.mark.fault
def test_each_part_that_is_killed_comes_back_and_the_others_stay(up: _Up) -> None:
    for name in ("web", "runner", "worker", "valkey", "postgres"):
        before = up.facts()["pids"]
        os.kill(before[name], signal.SIGKILL)

        deadline = time.monotonic() + _PATIENCE
        while (after := up.facts()["pids"])[name] in (None, before[name]):
            assert time.monotonic() < deadline, f"{name} did not come back"
            time.sleep(0.05)
        while not _is_ready(up):
            assert time.monotonic() < deadline, f"not ready again after the end of {name}"
            time.sleep(0.05)

        assert {key: pid for key, pid in after.items() if key != name} == {
            key: pid for key, pid in before.items() if key != name
        }


def _is_ready(up: _Up) -> bool:
    try:
        return httpx.get(f"{up.url}/api/ready", timeout=10).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.fault
def test_nothing_is_left_after_a_stop_or_a_kill_and_the_next_start_finds_its_data(tmp_path: Path) -> None:
    first = _Up(tmp_path, port=find_free_port())
    first.wait_ready()
    key = (tmp_path / "run" / "secret_key").read_text()
    family = first.family()
    assert len(family) >= 6

    first.process.kill()
    first.output()
    _assert_gone(family)

    second = _Up(tmp_path, port=first.port)
    second.wait_ready()
    assert (tmp_path / "run" / "secret_key").read_text() == key
    family = second.family()

    output = second.end(signal.SIGINT)

    assert second.process.returncode == 0
    assert output.rstrip().endswith("ok stopped")
    _assert_gone(family)
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert {name for name in left if name.endswith((".pid", ".json"))} == set()


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        up = _Up(tmp_path, port=port)

        assert up.output() == (
            f"error: port {port} on 127.0.0.1 is in use by another program: stop it, or choose another port, "
            f"as in `AGENTX_PORT={port + 1} make run`\n"
        )
        assert up.process.returncode == 2
    assert not (tmp_path / "postgres").exists()


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("AGENTX_PORT", "many", "error: AGENTX_PORT='many' is not a valid int\n"),
        ("AGENTX_PORT", "70000", "error: AGENTX_PORT=70000 must be at most 65535\n"),
        ("AGENTX_HOST", "192.0.2.1", "error: AGENTX_HOST=192.0.2.1 is not an address of this machine\n"),
    ],
)
def test_a_wrong_setting_is_one_line(tmp_path: Path, variable: str, value: str, expected: str) -> None:
    env = {
        **os.environ,
        "AGENTX_DATA_DIR": str(tmp_path),
        "AGENTX_PORT": str(find_free_port()),
        variable: value,
    }

    done = subprocess.run(
        [sys.executable, "manage.py", "up"], cwd=_ROOT, env=env, capture_output=True, text=True
    )

    assert done.stdout == expected
    assert done.returncode == 2
