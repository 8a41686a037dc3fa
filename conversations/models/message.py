"""The transcript. Rows are only ever added; a trigger refuses changes to what was said (see migration 0002)."""

from __future__ import annotations

from django.db import models

from conversations.models.conversation import Conversation


class Message(models.Model):
    """One message. ``chain_hash`` = sha256(previous hash ‖ canonical message), so one hash vouches for a prefix.

    ``token_count`` is an estimate by ``tokenizer`` made when the row was written; ``cumulative_tokens`` includes it.
    """

    class Role(models.TextChoices):
        USER = "user"
        ASSISTANT = "assistant"
        TOOL = "tool"

    class Status(models.TextChoices):
        COMPLETE = "complete"
        STOPPED = "stopped", "stopped by a person"
        INTERRUPTED = "interrupted", "its process went away"
        FAILED = "failed", "the model failed part of the way"

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="messages")
    seq = models.IntegerField()
    turn = models.IntegerField()
    role = models.CharField(max_length=16, choices=Role.choices)
    content = models.TextField(blank=True)
    parts = models.JSONField(default=list, blank=True)
    tool_calls = models.JSONField(default=list, blank=True)
    tool_call_id = models.CharField(max_length=200, blank=True, default="")
    artifact = models.JSONField(null=True, blank=True)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.COMPLETE)
    run = models.ForeignKey(
        "conversations.Run", null=True, blank=True, on_delete=models.CASCADE, related_name="written_messages"
    )
    token_count = models.IntegerField()
    tokenizer = models.CharField(max_length=64)
    cumulative_tokens = models.BigIntegerField()
    chain_hash = models.CharField(max_length=64)
    metadata = models.JSONField(default=dict, blank=True)
    superseded_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["conversation", "seq"]
        permissions = [("view_content", "Can view what people wrote")]
        constraints = [
            models.UniqueConstraint(fields=["conversation", "seq"], name="message_seq"),
            models.CheckConstraint(
                condition=models.Q(seq__gte=1, turn__gte=1, token_count__gte=0), name="message_positive"
            ),
            models.CheckConstraint(
                condition=models.Q(role__in=["user", "assistant", "tool"]), name="message_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.seq}"
