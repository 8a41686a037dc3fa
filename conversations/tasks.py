"""Celery's door: what can wait. Every task survives running twice."""

from __future__ import annotations

from celery import shared_task

from conversations.services.leases import runs_reap
from conversations.services.presence import presence_save


@shared_task(name="conversations.worker_seen", ignore_result=True)
def worker_seen() -> None:
    """Beat queues it, a worker runs it: both are alive when the row is fresh."""
    presence_save(role="worker", instance="any")


@shared_task(name="conversations.reap_runs", ignore_result=True)
def reap_runs() -> int:
    """Settle runs whose runner is gone, also when no runner is left to do it."""
    return runs_reap()
