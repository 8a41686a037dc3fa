"""Celery's door to accounts."""

from __future__ import annotations

from celery import shared_task

from agentx.accounts.services import expired_clear


@shared_task(name="accounts.clear_expired", ignore_result=True)
def clear_expired() -> int:
    """Sweep away expired sessions and links; running it twice changes nothing more."""
    return expired_clear()
