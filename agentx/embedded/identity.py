"""Which account PostgreSQL runs as when we are root, and whether that account gets to its files at all."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agentx.embedded.errors import ConfigurationProblem
from agentx.embedded.process import Child, Identity, Program


def choose_identity(*, data_dir: Path, must_reach: Sequence[Path]) -> Identity | None:
    """None (run as ourselves) unless we are root.

    Existing data keeps its owner. Folders on the way that the account may not enter need the kernel's permission to
    read and search, which a container may have taken from root; then there is a sentence instead of a puzzle.
    """
    if os.geteuid() != 0:
        return None
    owner = data_dir.stat() if (data_dir / "PG_VERSION").exists() else None
    if owner is not None and owner.st_uid != 0:
        uid, gid = owner.st_uid, owner.st_gid
    else:
        account = _find_account()
        uid, gid = account.pw_uid, account.pw_gid
    for read_search in (False, True):
        identity = Identity(uid=uid, gid=gid, read_search=read_search)
        if _can_reach(must_reach, identity=identity):
            return identity
    raise ConfigurationProblem(
        f"PostgreSQL cannot run as root, and user {uid} may not enter {data_dir.parent}: run as an ordinary user, "
        "or move the project and AGENTX_DATA_DIR out of closed folders such as /root"
    )


def _find_account() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise ConfigurationProblem(
        "PostgreSQL cannot run as root and there is no account `nobody`: run as an ordinary user"
    )


def _can_reach(targets: Sequence[Path], *, identity: Identity) -> bool:
    """Whether ``identity`` gets to all of ``targets``; the nearest existing parent stands for what is yet to be made."""
    existing = [next(path for path in (target, *target.parents) if path.exists()) for target in targets]
    probe = Child(
        Program(
            name="probe",
            argv=(
                shutil.which("ls") or "/bin/ls",
                "-d",
                *(f"{path}/." if path.is_dir() else str(path) for path in existing),
            ),
            env={"PATH": os.defpath},
            cwd=Path("/"),
            log_file=Path(os.devnull),
            identity=identity,
        )
    )
    probe.spawn()
    return probe.wait(seconds=10) and probe.exit_status() == "exit code 0"
