"""How long a rate limit is waited out."""

from __future__ import annotations

import pytest

from agentx.llm.retry import rate_limit_wait

SCHEDULE = (15.0, 30.0, 60.0, 120.0)


@pytest.mark.parametrize(
    ("attempt", "retry_after", "seconds"),
    [
        (0, None, 15.0),
        (1, None, 30.0),
        (2, None, 60.0),
        (3, None, 120.0),
        (4, None, None),
        (4, 1.0, None),
        (0, 7.0, 7.0),
        (3, 86_400.0, 300.0),
        (0, 0.0, 0.0),
        (0, -1.0, 15.0),
    ],
)
def test_the_provider_decides_within_bounds_and_the_schedule_ends_it(attempt, retry_after, seconds):
    assert rate_limit_wait(attempt=attempt, retry_after=retry_after, schedule=SCHEDULE) == seconds
