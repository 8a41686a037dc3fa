"""Threads of tools: bounded, reused by what waits, and never in the way of the end of the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

from tools.services.threads import DaemonThreads, ToolCrashed, in_tool_thread

ROOT = Path(__file__).resolve().parent.parent.parent
NAME: ContextVar[str] = ContextVar("NAME", default="")


def test_what_waits_is_done_by_a_thread_that_has_finished():
    threads = DaemonThreads(most=2)
    release = threading.Event()
    stuck = threads.submit(lambda: release.wait(30))

    results = [threads.submit(lambda n=n: n).result(30) for n in range(20)]
    release.set()

    assert (results, stuck.result(30)) == (list(range(20)), True)


def test_work_that_was_given_up_before_it_began_never_begins():
    threads = DaemonThreads(most=1)
    release, begun = threading.Event(), []
    first = threads.submit(lambda: release.wait(30))
    second = threads.submit(lambda: begun.append("second"))
    third = threads.submit(lambda: begun.append("third"))

    assert second.cancel()
    release.set()
    third.result(30)

    assert (first.result(30), begun) == (True, ["third"])


def test_an_error_reaches_who_waits_and_the_thread_goes_on():
    threads = DaemonThreads(most=1)
    release = threading.Event()
    threads.submit(lambda: release.wait(30))
    failing, after = threads.submit(lambda: 1 // 0), threads.submit(lambda: "after")
    release.set()

    with pytest.raises(ZeroDivisionError):
        failing.result(30)
    assert after.result(30) == "after"


async def test_functions_see_the_callers_context_variables():
    NAME.set("caller")

    assert await in_tool_thread(NAME.get) == "caller"


async def test_an_exit_inside_a_tool_is_an_ordinary_error():
    with pytest.raises(ToolCrashed, match="SystemExit"):
        await in_tool_thread(sys.exit)


async def test_given_up_it_returns_while_the_function_goes_on():
    release, ended = threading.Event(), threading.Event()

    def run() -> None:
        release.wait(30)
        ended.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await in_tool_thread(run)

    assert not ended.is_set()
    release.set()
    assert await asyncio.to_thread(ended.wait, 30)


def test_a_tool_that_never_returns_does_not_keep_its_process_alive():
    """A runner that is told to stop must be able to."""
    code = (
        "import threading\n"
        "from tools.services.threads import DaemonThreads\n"
        "begun = threading.Event()\n"
        "DaemonThreads(most=1).submit(lambda: begun.set() or threading.Event().wait())\n"
        "begun.wait(30)\n"
        "print('the end')\n"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (0, "the end\n")
