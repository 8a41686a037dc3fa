"""Starts the throw-away PostgreSQL and Valkey of a test session, before Django reads its settings.

A plugin of its own because settings are read before any ``conftest.py``. With xdist the controlling process starts the
services and its workers inherit the addresses; each worker gets a Redis database of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from pathlib import Path

import pytest

warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")

_STARTED = "AGENTX_TEST_SERVICES"


def services_start() -> None:
    """Start both and put their addresses into the environment."""
    from agentx.embedded.postgres import EmbeddedPostgres
    from agentx.embedded.valkey import EmbeddedValkey

    folder = Path(tempfile.mkdtemp(prefix="agentx-tests-"))
    postgres = EmbeddedPostgres(
        data_dir=folder / "postgres", log_file=folder / "log" / "postgres.log", durable=False
    )
    valkey = EmbeddedValkey(data_dir=folder / "valkey", log_file=folder / "log" / "valkey.log", durable=False)
    os.environ["DATABASE_URL"] = postgres.start()
    os.environ["AGENTX_TEST_REDIS"] = valkey.start()
    os.environ[_STARTED] = str(folder)
    os.environ["AGENTX_DATA_DIR"] = str(folder / "data")
    _running.extend([postgres, valkey, folder])


_running: list = []


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    if _STARTED not in os.environ:
        services_start()
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    number = 1 + int(worker.removeprefix("gw")) % 14
    os.environ["REDIS_URL"] = os.environ["AGENTX_TEST_REDIS"].removesuffix("/0") + f"/{number}"


def pytest_unconfigure() -> None:
    services_stop()


def services_stop() -> None:
    """Stop what :func:`services_start` started in this process, and remove its data."""
    if _running:
        postgres, valkey, folder = _running
        valkey.stop()
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)
        _running.clear()
