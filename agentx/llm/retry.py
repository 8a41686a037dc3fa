"""When to ask a provider again."""

from __future__ import annotations

from collections.abc import Sequence

# A provider may ask for more patience than a person has: longer waits than this are cut to it.
LONGEST_WAIT = 300.0


def rate_limit_wait(*, attempt: int, retry_after: float | None, schedule: Sequence[float]) -> float | None:
    """Seconds to wait after the ``attempt``-th (from 0) rate limit; None when the schedule is used up.

    The provider's Retry-After wins over the schedule, up to five minutes.
    """
    if attempt >= len(schedule):
        return None
    if retry_after is None or retry_after < 0:
        return schedule[attempt]
    return min(retry_after, LONGEST_WAIT)
