"""The embedded PostgreSQL keeps what was committed, whatever happened to its process or its lock file."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from agentx.embedded.errors import ConfigurationProblem
from agentx.embedded.postgres import EmbeddedPostgres


@pytest.fixture(scope="module")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("postgres")
    yield folder
    server = EmbeddedPostgres(data_dir=folder / "data", runtime_dir=folder / "run")
    server.prepare()  # ends what a failed test left running


def _server(folder: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(data_dir=folder / "data", runtime_dir=folder / "run")


def _query(server: EmbeddedPostgres, statement: str) -> object:
    with psycopg.connect(server.url) as connection:
        row = connection.execute(statement.encode()).fetchone()
    return None if row is None else row[0]


def test_committed_rows_are_there_after_a_restart(server_folder: Path) -> None:
    with _server(server_folder) as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept (word text)")
        connection.execute("INSERT INTO kept VALUES ('here')")

    with _server(server_folder) as server:
        assert _query(server, "SELECT word FROM kept") == "here"
        assert server.version.startswith("18.")

    assert server.pid is None


def test_committed_rows_survive_a_killed_server(server_folder: Path) -> None:
    server = _server(server_folder)
    server.start()
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE crashed AS SELECT 7 AS number")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    assert server.child.wait(seconds=10)

    server.start()

    assert _query(server, "SELECT number FROM crashed") == 7
    server.stop()


def test_a_lock_file_with_the_number_of_another_program_is_dropped(server_folder: Path) -> None:
    _server(server_folder).prepare()
    lock = server_folder / "data" / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n{server_folder / 'data'}\n1\n5432\n\n\n0 0\nready\n")

    with _server(server_folder) as server:
        assert _query(server, "SELECT 1") == 1
        assert lock.read_text().splitlines()[0] == str(server.pid)


def test_a_server_left_running_is_ended_before_the_next_start(server_folder: Path) -> None:
    forgotten = _server(server_folder)
    forgotten.start()
    old_pid = forgotten.pid
    assert old_pid is not None

    with _server(server_folder) as server:
        assert server.pid != old_pid
        assert not psutil.pid_exists(old_pid) or psutil.Process(old_pid).status() == psutil.STATUS_ZOMBIE
        assert _query(server, "SELECT 1") == 1

    assert not forgotten.alive()


def test_the_application_role_is_no_superuser_and_every_new_database_has_vectors(server_folder: Path) -> None:
    with _server(server_folder) as server:
        assert _query(server, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE fresh")
        with psycopg.connect(server.url.replace("/agentx?", "/fresh?")) as connection:
            row = connection.execute("SELECT '[1,2]'::vector <-> '[1,5]'::vector").fetchone()

    assert row == (3.0,)


def test_only_its_owner_can_enter_the_socket_folder(server_folder: Path) -> None:
    with _server(server_folder):
        socket_folder = server_folder / "run" / "pg"
        assert socket_folder.stat().st_mode & 0o077 == 0
        assert [path.name for path in socket_folder.iterdir() if path.is_socket()] == [".s.PGSQL.5432"]


def test_data_of_another_major_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("16\n")

    with pytest.raises(ConfigurationProblem, match=r"written by PostgreSQL 16, this is 18") as caught:
        _server(tmp_path).start()

    assert caught.value.exit_code == 2
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["PG_VERSION"]


def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "letter.txt").write_text("mine")

    with pytest.raises(ConfigurationProblem, match="holds no PostgreSQL data"):
        _server(tmp_path).start()

    assert (tmp_path / "data" / "letter.txt").read_text() == "mine"


def test_a_data_path_too_long_for_a_socket_works_and_leaves_nothing_behind(tmp_path: Path) -> None:
    deep = tmp_path / ("long-folder-name-" * 5)

    with EmbeddedPostgres(data_dir=deep / "data", runtime_dir=deep / "run", durable=False) as server:
        socket_folder = Path(psycopg.conninfo.conninfo_to_dict(server.url)["host"])  # pyright: ignore[reportArgumentType]
        assert _query(server, "SELECT 1") == 1
        assert deep not in socket_folder.parents

    assert not socket_folder.exists()
