"""The application's processes get what they need, the same at every start on one data folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from agentx.embedded.application import build_app_processes, http_get, run_command
from agentx.embedded.data_folder import DataFolder
from agentx.embedded.errors import ServiceFailed
from agentx.embedded.service import find_free_port


def _runner_id(folder: Path, env: dict[str, str]) -> str:
    processes = build_app_processes(
        folder=DataFolder(folder), env=env, host="127.0.0.1", port=8000, drain_seconds=30.0
    )
    return {process.name: process for process in processes}["runner"].child.program.env["AGENTX_RUNNER_ID"]


def test_a_runner_has_the_same_name_at_every_start_on_one_folder_and_another_elsewhere(
    tmp_path: Path,
) -> None:
    name = _runner_id(tmp_path / "a", {})

    assert name.startswith("runner-1@")
    assert _runner_id(tmp_path / "a", {}) == name
    assert _runner_id(tmp_path / "b", {}) != name
    assert _runner_id(tmp_path / "a", {"AGENTX_RUNNER_ID": "mine"}) == "mine"


def test_the_runner_is_given_its_drain_time_and_five_seconds_more(tmp_path: Path) -> None:
    processes = build_app_processes(
        folder=DataFolder(tmp_path), env={}, host="127.0.0.1", port=8000, drain_seconds=30.0
    )

    assert {process.name: process.stop_seconds for process in processes} == {
        "web": 10.0,
        "runner": 35.0,
        "worker": 15.0,
    }


def test_a_failed_command_says_its_name_and_the_end_of_its_log(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.open(url="")

    with pytest.raises(
        ServiceFailed, match=r"`manage.py no_such_command` failed \(exit code 1\); its log is "
    ) as caught:
        run_command("no_such_command", folder=folder, env=dict(os.environ), seconds=60, tick=lambda: None)

    assert "Unknown command: 'no_such_command'" in "\n".join(caught.value.log_tail)
    folder.close()


def test_nobody_answering_is_a_status_not_an_error() -> None:
    assert http_get(host="127.0.0.1", port=find_free_port(), path="/api/health").status == 0


def test_programs_run_with_this_python(tmp_path: Path) -> None:
    processes = build_app_processes(
        folder=DataFolder(tmp_path), env={}, host="127.0.0.1", port=8000, drain_seconds=1.0
    )

    assert {process.child.program.argv[0] for process in processes} == {sys.executable}
