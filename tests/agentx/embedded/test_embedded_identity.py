"""PostgreSQL never runs as root, and a folder that its account cannot enter is explained."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentx.embedded.errors import ConfigurationProblem
from agentx.embedded.identity import choose_identity

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
def test_a_way_that_stays_closed_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("18\n")
    os.chown(tmp_path, 4321, 4321)
    here = Path("/proc/1/root/nowhere") if os.path.exists("/proc/1/root") else tmp_path

    with pytest.raises(
        ConfigurationProblem, match="PostgreSQL cannot run as root, and user 4321 may not enter"
    ):
        choose_identity(data_dir=tmp_path, must_reach=(here,))
