"""Signs of life of runners and workers, by the database's clock."""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now

from conversations.models import ProcessPresence

# Rows of processes that have been gone for this long are swept away.
FORGET_AFTER = timedelta(days=1)


def presence_save(*, role: str, instance: str) -> None:
    """Note that a process is alive."""
    ProcessPresence.objects.update_or_create(role=role, instance=instance, defaults={"seen_at": Now()})
    ProcessPresence.objects.filter(seen_at__lt=Now() - FORGET_AFTER).delete()
