"""A supervisor with stand-in programs, run as a process of its own so that tests can signal and kill it.

``python -m tests.agentx.embedded.standin_stack FOLDER NAME=KIND…`` where KIND is ``steady`` (ends on SIGTERM), ``slow``
(takes ten minutes to end), ``impatient`` (steady, but gives a leftover only half a second to end) or ``broken`` (ends
by itself a moment after its start). Prints the pids as JSON whenever they change. Every stand-in appends its name to
``FOLDER/stopped`` when it is told to stop.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from agentx.embedded import supervisor as module
from agentx.embedded.application import AppProcess
from agentx.embedded.console import Console
from agentx.embedded.data_folder import DataFolder
from agentx.embedded.supervisor import Supervisor

_PROGRAM = """
import pathlib, signal, sys, time
folder, name, kind = sys.argv[1:]
def end(*_):
    with open(pathlib.Path(folder) / "stopped", "a") as file:
        file.write(name + "\\n")
    if kind == "slow":
        time.sleep(600)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
time.sleep(1.2 if kind == "broken" else 600)
"""


def main(root: Path, *kinds: str) -> None:
    folder = DataFolder(root)
    folder.open(url="http://127.0.0.1:1")
    supervisor = Supervisor(console=Console())
    supervisor.on_change = lambda: print(json.dumps(supervisor.pids()), flush=True)
    module.FIRST_DELAY_SECONDS = 0.05
    services = []
    for entry in kinds:
        name, kind = entry.split("=")
        argv = (sys.executable, "-c", _PROGRAM, str(root), name, kind)
        grace = 0.5 if kind == "impatient" else 60.0
        services.append(
            AppProcess(
                name=name, label=name, argv=argv, env=dict(os.environ), folder=folder, stop_seconds=grace
            )
        )
    with supervisor.catch_signals():
        supervisor.start(services, may_give_up=True)
        supervisor.on_change()
        supervisor.watch()
        supervisor.stop([[service.name] for service in services])
    folder.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
