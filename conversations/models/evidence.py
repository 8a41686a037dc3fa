"""The evidence ledger: what was said word for word about constraints, decisions and open work."""

from __future__ import annotations

from django.db import models

from conversations.models.conversation import Conversation


class EvidenceLedger(models.Model):
    """One row a conversation, a pure fold over its live transcript up to ``cursor`` (a seq).

    ``prefix_hash`` vouches for the live messages that were folded; ``cursor_hash`` is the chain hash of the row at the
    cursor; ``revision`` is the conversation's as of the fold. While that has not changed, nothing below the cursor has.
    """

    conversation = models.OneToOneField(
        Conversation, on_delete=models.CASCADE, related_name="evidence", primary_key=True
    )
    cursor = models.IntegerField(default=0)
    prefix_hash = models.CharField(max_length=64, default="", blank=True)
    cursor_hash = models.CharField(max_length=64, default="", blank=True)
    revision = models.IntegerField(default=0)
    version = models.IntegerField(default=0)
    omitted = models.IntegerField(default=0)
    buckets = models.JSONField(default=dict)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.conversation_id} at {self.cursor}"
