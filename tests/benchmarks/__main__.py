"""``make bench``: every benchmark of this folder, a table with the baseline beside each figure, one JSON file each.

Exit code 1 when a figure misses its floor. ``python -m tests.benchmarks NAME…`` runs only those named.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path

from tests.benchmarks.figures import Figure, IdleClock, idle_share, render
from tests.services_plugin import services_start, services_stop

ROOT = Path(__file__).resolve().parent.parent.parent
NOT_BENCHMARKS = {"__init__", "__main__", "figures", "load", "relay", "test_load"}


def main() -> int:
    names = sys.argv[1:] or sorted(
        path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in NOT_BENCHMARKS
    )
    folder = ROOT / os.environ.get("AGENTX_DATA_DIR", "var") / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    services_start()
    missed = 0
    try:
        for name in names:
            idle = idle_share()
            print(f"\n{name} (CPU idle before: {idle:.0%})", flush=True)
            began, clock = time.monotonic(), IdleClock()
            figures: list[Figure] = importlib.import_module(f"tests.benchmarks.{name}").run()
            figures += [
                Figure("CPU idle before", 100 * idle, "%"),
                Figure("CPU idle meanwhile", 100 * clock.share(), "%"),
            ]
            print(render(figures), flush=True)
            print(f"{time.monotonic() - began:.0f} s", flush=True)
            path = folder / f"{name}.json"
            path.write_text(json.dumps([figure.as_json() for figure in figures], indent=1))
            missed += sum(not figure.ok for figure in figures)
    finally:
        services_stop()
    print(f"\n{missed} figures miss their floor" if missed else "\nevery figure reaches its floor")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
