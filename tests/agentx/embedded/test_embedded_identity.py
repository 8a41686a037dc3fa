"""PostgreSQL never runs as root, and a folder that its account cannot enter is explained."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentx.embedded.identity import choose_identity

_ROOT = Path(__file__).resolve().parents[3]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up rights")


@pytest.mark.skipif(os.geteuid() == 0, reason="root takes another account")
def test_an_ordinary_user_runs_it_as_themselves(tmp_path: Path) -> None:
    assert choose_identity(data_dir=tmp_path, must_reach=(tmp_path,)) is None


@as_root
def test_root_gives_up_every_right_where_the_way_is_open() -> None:
    identity = choose_identity(data_dir=Path("/usr/no-data"), must_reach=(Path("/usr"),))

    assert identity is not None
    assert identity.uid != 0
    assert identity.read_search is False


@as_root
def test_root_keeps_the_right_to_search_where_a_folder_on_the_way_is_closed(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    identity = choose_identity(data_dir=closed / "postgres", must_reach=(closed / "postgres",))

    assert identity is not None
    assert identity.uid != 0
    assert identity.read_search is True


@as_root
def test_existing_data_keeps_its_owner(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("18\n")
    os.chown(tmp_path, 4321, 4321)

    identity = choose_identity(data_dir=tmp_path, must_reach=(Path("/usr"),))

    assert identity is not None
    assert (identity.uid, identity.gid) == (4321, 4321)


@as_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv to take a right from root")
def test_a_way_that_root_may_not_open_is_one_sentence(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    code = (
        "import sys\nfrom pathlib import Path\nfrom agentx.embedded.identity import choose_identity\n"
        "folder = Path(sys.argv[1])\ntry:\n    choose_identity(data_dir=folder / 'postgres', must_reach=(folder,))\n"
        "except Exception as error:\n    print(type(error).__name__, error)"
    )
    without = ("--bounding-set", "-dac_read_search", "--inh-caps", "-dac_read_search")

    done = subprocess.run(
        ["setpriv", *without, sys.executable, "-c", code, str(closed)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
    )

    assert done.stdout.startswith("ConfigurationProblem PostgreSQL cannot run as root, and user ")
    assert done.stdout.endswith(
        "or move the project and AGENTX_DATA_DIR out of closed folders such as /root\n"
    )
