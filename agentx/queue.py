"""How services ask for background work: by registered name, after the transaction commits.

Services never import tasks, so that the arrow between them has one direction.
"""

from __future__ import annotations

import structlog
from celery import current_app
from django.db import transaction

log = structlog.get_logger(__name__)


def enqueue_on_commit(name: str, **ids: str | int) -> None:
    """Queue the task ``name`` with ``ids`` once the current transaction has committed.

    A dead broker is logged and not raised: the commit stands, and a sweeper queues what is missing.
    """

    def send() -> None:
        try:
            current_app.send_task(name, kwargs=ids, retry=False)
        except Exception as error:
            log.warning("enqueue_failed", task=name, error=type(error).__name__)

    transaction.on_commit(send)
