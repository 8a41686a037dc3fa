"""What the model was told of its tools, kept once for all requests that named the same ones."""

from __future__ import annotations

from django.db import models


class ToolSet(models.Model):
    """``hash``: see ``conversations.context.render.hash_tools``. ``schemas``: name, description and parameters of each."""

    hash = models.CharField(max_length=64, primary_key=True)
    schemas = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.hash[:12]
