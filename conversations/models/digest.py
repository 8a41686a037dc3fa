"""Digest segments: what stands in for turns that have left the view."""

from __future__ import annotations

from django.db import models

from conversations.models.conversation import Conversation


class CompactionDigest(models.Model):
    """One segment over the live messages from ``from_seq`` to ``through_seq``. Its text never changes.

    ``source_hash`` vouches for exactly those messages (see ``conversations.context.segments``). The active segments of a
    conversation never overlap; together they are gapless from the first message on.
    """

    class Kind(models.TextChoices):
        MODEL = "model"
        MECHANICAL = "mechanical"

    class Reason(models.TextChoices):
        PREWARM = "prewarm"
        JIT = "jit", "just in time"
        OVERFLOW = "overflow"
        TOOL = "tool"
        BACKFILL = "backfill"
        MANUAL = "manual"

    class Status(models.TextChoices):
        ACTIVE = "active"
        MERGED = "merged", "its parent stands in for it"
        INVALID = "invalid", "its messages were edited or deleted"
        REPLACED = "replaced", "a better one covers its range"
        REJECTED = "rejected", "it did not pass its checks"

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="digests")
    level = models.IntegerField(default=0)
    from_seq = models.IntegerField()
    through_seq = models.IntegerField()
    from_message_id = models.BigIntegerField()
    through_message_id = models.BigIntegerField()
    source_hash = models.CharField(max_length=64)
    prompt_version = models.CharField(max_length=40)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    reason = models.CharField(max_length=16, choices=Reason.choices)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.ACTIVE)
    reject_reason = models.CharField(max_length=200, blank=True, default="")
    text = models.TextField()
    identifiers = models.JSONField(default=list)
    tokens = models.IntegerField()
    source_tokens = models.IntegerField()
    messages = models.IntegerField()
    model = models.CharField(max_length=200, blank=True, default="")
    duration_ms = models.IntegerField(null=True, blank=True)
    usage = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "from_seq", "through_seq", "source_hash", "prompt_version"],
                name="digest_once",
            ),
            models.CheckConstraint(
                condition=models.Q(from_seq__gte=1, through_seq__gte=models.F("from_seq")),
                name="digest_range",
            ),
        ]
        indexes = [
            models.Index(
                fields=["conversation", "from_seq"],
                condition=models.Q(status="active"),
                name="digest_active",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.from_seq}-{self.through_seq}"
