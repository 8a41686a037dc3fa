"""Messages that were sent while an answer was being written and still wait for it."""

from __future__ import annotations

from uuid import UUID

from conversations.models import Steer
from conversations.selectors import access
from conversations.selectors.bodies import steer_body
from conversations.wire import SteerBody


def steers_waiting(*, user_id: int, run_id: UUID) -> list[SteerBody]:
    """What waits for a run of the user's, in the order in which it was sent. Raises ``NotFound``."""
    run = access.run_get(user_id=user_id, run_id=run_id)
    rows = Steer.objects.select_related("message").filter(run=run, message=None)
    return [steer_body(row) for row in rows.order_by("created_at", "pk")]
