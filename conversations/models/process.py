"""Which runners and workers are alive, so that the page can say when nothing will answer."""

from __future__ import annotations

from django.db import models


class ProcessPresence(models.Model):
    """One row a process instance, refreshed by it; read against the database's clock."""

    role = models.CharField(max_length=16)
    instance = models.CharField(max_length=200)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["role", "instance"], name="process_instance")]

    def __str__(self) -> str:
        return f"{self.role} {self.instance}"
