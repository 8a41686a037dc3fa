"""How a serving process is set up."""

from __future__ import annotations

import subprocess
import sys

WEB = """
import sys
import agentx.asgi
from agentx import queue
queue._known_names()
print(*(name for name in ("langchain_core", "langchain_openai", "openai") if name in sys.modules))
"""
TUNED = """
import gc, sys
from agentx.process import SWITCH_INTERVAL, process_tune
process_tune()
print(abs(sys.getswitchinterval() - SWITCH_INTERVAL) < 1e-9, gc.get_freeze_count() > 1_000)
"""


def _printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def test_the_web_process_does_not_load_what_speaks_to_models():
    assert _printed(WEB) == ""


def test_a_tuned_process_switches_threads_early_and_has_its_modules_frozen():
    assert _printed(TUNED) == "True True"
