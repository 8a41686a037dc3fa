"""One data folder, one copy: locks, secrets, announcements, and sentences instead of tracebacks."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from agentx.embedded.data_folder import DataFolder, explain_os_error
from agentx.embedded.errors import ConfigurationProblem, FolderLocked

_ROOT = Path(__file__).resolve().parents[3]


def _hold_in_another_process(folder: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import sys, time\nfrom pathlib import Path\nfrom agentx.embedded.data_folder import DataFolder\n"
                "folder = DataFolder(Path(sys.argv[1]))\nfolder.open(url='http://127.0.0.1:8123')\n"
                "folder.announce_ready({'url': 'http://127.0.0.1:8123'})\n"
                "print('held', flush=True)\ntime.sleep(600)"
            ),
            str(folder),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_second_copy_is_told_in_one_line_who_holds_the_folder(tmp_path: Path) -> None:
    holder = _hold_in_another_process(tmp_path)

    with pytest.raises(FolderLocked) as caught:
        DataFolder(tmp_path).open(url="http://127.0.0.1:9")

    assert str(caught.value) == (
        f"{tmp_path} is in use by another copy (process {holder.pid}, http://127.0.0.1:8123): "
        "use that one, stop it, or set another AGENTX_DATA_DIR"
    )
    assert caught.value.exit_code == 2
    assert json.loads((tmp_path / "run" / "ready.json").read_text()) == {"url": "http://127.0.0.1:8123"}
    holder.kill()
    holder.communicate()


def test_the_lock_and_announcements_of_a_killed_copy_are_taken_over(tmp_path: Path) -> None:
    holder = _hold_in_another_process(tmp_path)
    holder.kill()
    holder.communicate()

    folder = DataFolder(tmp_path)
    folder.open(url="http://127.0.0.1:8000")

    assert json.loads((tmp_path / "run" / "lock").read_text()) == {
        "pid": os.getpid(),
        "url": "http://127.0.0.1:8000",
    }
    assert not (tmp_path / "run" / "ready.json").exists()
    folder.close()


def test_closing_takes_back_what_was_announced_and_frees_the_folder(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.open(url="http://127.0.0.1:8000")
    folder.announce_services({"REDIS_URL": "redis://:secret@127.0.0.1:20001/0"})
    folder.announce_ready({"url": "http://127.0.0.1:8000"})
    assert (tmp_path / "run" / "services.json").stat().st_mode & 0o077 == 0
    assert (tmp_path / "run" / "ready.json").stat().st_mode & 0o077 == 0

    folder.close()

    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["lock"]
    again = DataFolder(tmp_path)
    again.open(url="http://127.0.0.1:8000")
    again.close()


def test_the_secret_key_is_made_once_for_this_user_alone(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.open(url="")

    key = folder.secret_key()

    assert len(key) == 43
    assert folder.secret_key() == key
    assert (tmp_path / "run" / "secret_key").stat().st_mode & 0o777 == 0o600
    folder.close()


def test_a_full_disk_is_said_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10**12, 10**12 - 400_000_000, 400_000_000))

    with pytest.raises(ConfigurationProblem, match=r"is full: 400 MB are free, 500 MB are needed"):
        DataFolder(tmp_path / "new").open(url="")


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationProblem) as caught:
        DataFolder(tmp_path / "file" / "var").open(url="")

    assert str(caught.value) == f"{tmp_path / 'file' / 'var'}: Not a directory"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (
            errno.ENOSPC,
            "no space left on the disk of /data: free some, then start again; nothing that was saved is lost",
        ),
        (
            errno.EACCES,
            "/data cannot be written (Permission denied): fix its owner and mode, or set another AGENTX_DATA_DIR",
        ),
    ],
)
def test_a_failed_file_operation_says_what_to_do(number: int, expected: str) -> None:
    assert explain_os_error(OSError(number, os.strerror(number)), path=Path("/data")) == expected
