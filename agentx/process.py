"""How a process that serves is set up once it has loaded: what its event loop waits for, and what its collector looks at."""

from __future__ import annotations

import ctypes
import gc
import sys

# Seconds that a thread computes before another may go on. The event loop shares its interpreter with the threads of the ORM,
# and with Python's own 5 ms every token waits for as many times that as there are threads at work.
SWITCH_INTERVAL = 0.0005


def process_tune() -> None:
    """To be called when everything is imported: the collector need not look at that ever again."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
    memory_trim()


def memory_trim() -> None:
    """Give freed memory back to the system, where the C library can: loading leaves holes of some dozen megabytes."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):  # another C library than glibc
        return
