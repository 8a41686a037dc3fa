"""The data folder of one installation: who may use it, what lies where, and what it tells other programs."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentx.embedded.errors import ConfigurationProblem, FolderLocked
from agentx.embedded.service import read_or_create_secret, write_private

# A new PostgreSQL cluster is 40 MB, its log up to 512 MB before a checkpoint, but that only under load.
SPACE_FOR_NEW = 500_000_000  # bytes
SPACE_FOR_EXISTING = 50_000_000


class DataFolder:
    """``root`` and everything below it. Nothing is touched before :meth:`open`."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.run = self.root / "run"
        self.log = self.root / "log"
        self._lock: int | None = None

    @property
    def digest(self) -> str:
        """Eight characters that differ between data folders and stay the same for each."""
        return hashlib.sha256(os.fsencode(self.root)).hexdigest()[:8]

    def open(self, *, url: str) -> None:
        """Create it if needed and take it for this process alone, until :meth:`close` or the process ends.

        Raises :class:`FolderLocked` when another copy runs on it, :class:`ConfigurationProblem` when it cannot be
        written or the disk is full. A lock file left by a killed run holds nothing and is taken over.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.run.mkdir(exist_ok=True)
            self.log.mkdir(exist_ok=True, mode=0o700)
            lock = os.open(self.run / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationProblem(explain_os_error(error, path=self.root)) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_json(self.run / "lock")
            os.close(lock)
            raise FolderLocked(
                f"{self.root} is in use by another copy (process {holder.get('pid', 'unknown')}, "
                f"{holder.get('url', 'address unknown')}): use that one, stop it, or set another AGENTX_DATA_DIR",
                **holder,
            ) from None
        self._lock = lock
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps({"pid": os.getpid(), "url": url}).encode(), 0)
        self._remove_announcements()  # of a killed run
        self._check_space()

    def close(self) -> None:
        """Take back what was announced and let the folder go."""
        if self._lock is None:
            return
        self._remove_announcements()
        os.ftruncate(self._lock, 0)
        os.close(self._lock)
        self._lock = None

    def secret_key(self) -> str:
        """The installation's signing key, generated at the first start."""
        return read_or_create_secret(self.run / "secret_key")

    def announce_services(self, values: Mapping[str, str]) -> None:
        """Write ``run/services.json``: the variables with which other commands find the same services."""
        write_private(self.run / "services.json", json.dumps(dict(values), indent=2) + "\n")

    def announce_ready(self, facts: Mapping[str, Any]) -> None:
        """Write ``run/ready.json``, which says to scripts that everything runs, and where."""
        write_private(self.run / "ready.json", json.dumps(dict(facts), indent=2) + "\n")

    def _remove_announcements(self) -> None:
        for name in ("ready.json", "services.json"):
            (self.run / name).unlink(missing_ok=True)

    def _check_space(self) -> None:
        is_new = not (self.root / "postgres" / "PG_VERSION").exists()
        needed = SPACE_FOR_NEW if is_new else SPACE_FOR_EXISTING
        free = shutil.disk_usage(self.root).free
        if free < needed:
            raise ConfigurationProblem(
                f"the disk of {self.root} is full: {free // 1_000_000} MB are free, {needed // 1_000_000} MB are needed; "
                "free some space or set another AGENTX_DATA_DIR"
            )


def explain_os_error(error: OSError, *, path: Path | None = None) -> str:
    """One sentence for a failed file operation, with what to do."""
    where = path or error.filename or "the data folder"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left on the disk of {where}: free some, then start again; nothing that was saved is lost"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{where} cannot be written ({error.strerror}): fix its owner and mode, or set another AGENTX_DATA_DIR"
    return f"{where}: {error.strerror or error}"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
