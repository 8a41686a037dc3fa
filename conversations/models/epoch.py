"""Epochs of a conversation's view: between two of them, every request extends the one before it."""

from __future__ import annotations

from django.db import models

from conversations.models.conversation import Conversation


class ContextEpoch(models.Model):
    """One row an epoch, never changed but blanked by a deletion: why it began, where it cut, and the blocks that stay as they were at its start.

    ``blocks``: the slow blocks, as ``[{"key", "content", "tokens"}]``. ``segments``: ids of the digest segments in the
    digest block. ``evidence``: the ledger's state at the cut. ``covered_seq``: those segments are gapless from the first message to here. ``fingerprint``: of model,
    system text and tools, whose change must begin an epoch.
    """

    class Reason(models.TextChoices):
        START = "start", "the first turn"
        CUT = "cut", "turns left the view"
        FORMS = "forms", "older messages were shortened"
        EDIT = "edit", "a person changed or deleted messages"
        MODEL = "model", "another model"
        PROMPT = "prompt", "instructions or base prompt changed"
        TOOLS = "tools", "the tools changed"

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="epochs")
    number = models.IntegerField()
    reason = models.CharField(max_length=16, choices=Reason.choices)
    cut_seq = models.IntegerField()
    cut_message_id = models.BigIntegerField(null=True, blank=True)
    settled_seq = models.IntegerField()
    covered_seq = models.IntegerField()
    revision = models.IntegerField()
    model = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=100)
    blocks = models.JSONField(default=list)
    segments = models.JSONField(default=list)
    evidence = models.JSONField(null=True)
    history_tokens_before = models.IntegerField(default=0)
    history_tokens_after = models.IntegerField(default=0)
    messages_evicted = models.IntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["conversation", "number"], name="context_epoch_once")]

    def __str__(self) -> str:
        return f"{self.conversation_id} epoch {self.number}"
