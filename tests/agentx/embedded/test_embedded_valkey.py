"""The embedded Valkey keeps its data and address through restarts, and lets in only who knows the password."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import redis

from agentx.embedded.valkey import EmbeddedValkey


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey(data_dir=tmp_path / "valkey", runtime_dir=tmp_path / "run") as server:
        yield server


def test_values_and_address_are_the_same_after_a_restart(server: EmbeddedValkey) -> None:
    before = server.url
    redis.Redis.from_url(before).set("word", "kept")

    server.stop()
    server.start()

    assert server.url == before
    assert redis.Redis.from_url(server.url).get("word") == b"kept"


def test_values_flushed_to_disk_survive_a_killed_server(server: EmbeddedValkey) -> None:
    client = redis.Redis.from_url(server.url)
    client.xadd("log", {"seq": 1})
    assert client.waitaof(1, 0, 5000) == [1, 0]
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    assert server.child.wait(seconds=10)

    server.start()

    assert redis.Redis.from_url(server.url).xlen("log") == 1


def test_a_client_without_the_password_is_refused(server: EmbeddedValkey) -> None:
    address = urlsplit(server.url)

    with pytest.raises(redis.AuthenticationError):
        redis.Redis(host=address.hostname or "", port=address.port or 0).ping()


def test_the_password_is_neither_in_the_process_list_nor_readable_by_others(server: EmbeddedValkey) -> None:
    password = urlsplit(server.url).password or ""

    assert len(password) == 43
    assert password not in " ".join(psutil.Process(server.pid).cmdline())
    for name in ("valkey.conf", "valkey_password"):
        assert (server.runtime_dir / name).stat().st_mode & 0o077 == 0


def test_a_server_left_running_is_ended_before_the_next_start(server: EmbeddedValkey) -> None:
    old_pid = server.pid

    with EmbeddedValkey(data_dir=server.data_dir, runtime_dir=server.runtime_dir) as second:
        assert second.pid != old_pid
        assert server.child.wait(seconds=10)


def test_throw_away_data_is_not_written(tmp_path: Path) -> None:
    with EmbeddedValkey(data_dir=tmp_path / "valkey", durable=False) as server:
        redis.Redis.from_url(server.url).set("word", "gone")

    assert list((tmp_path / "valkey").iterdir()) == []
