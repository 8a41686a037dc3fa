"""What each model call used and cost: the figures that usage reports add up."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from conversations.models.conversation import Conversation
from conversations.models.run import Run


class ModelCall(models.Model):
    """One model call, counted once: the key refuses a second row for the same call of a run.

    Token columns are null where the provider did not report them. ``cost``: US dollars, null where it is not known;
    ``cost_source``: the provider's own figure, or our estimate by price and tokens. Rows hold no words and outlive the
    conversation, since what was spent stays spent.
    """

    class Purpose(models.TextChoices):
        CHAT = "chat"
        SUMMARIZE = "summarize"
        TITLE = "title"
        EXTRACT = "extract"
        EMBED = "embed"

    class CostSource(models.TextChoices):
        UNKNOWN = ""
        PROVIDER = "provider"
        ESTIMATE = "estimate"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="model_calls")
    conversation = models.ForeignKey(
        Conversation, on_delete=models.SET_NULL, null=True, blank=True, related_name="model_calls"
    )
    run = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, blank=True, related_name="model_calls")
    call_index = models.IntegerField(default=0)
    purpose = models.CharField(max_length=16, choices=Purpose.choices, default=Purpose.CHAT)
    model = models.CharField(max_length=200)
    provider = models.CharField(max_length=200, blank=True, default="")
    prompt_tokens = models.IntegerField(null=True)
    cached_tokens = models.IntegerField(null=True)
    output_tokens = models.IntegerField(null=True)
    reasoning_tokens = models.IntegerField(null=True)
    estimated_prompt_tokens = models.IntegerField()
    predicted_cached_tokens = models.IntegerField(null=True)
    cost = models.DecimalField(max_digits=16, decimal_places=10, null=True)
    cost_source = models.CharField(
        max_length=8, choices=CostSource.choices, blank=True, default=CostSource.UNKNOWN
    )
    first_token_ms = models.IntegerField(null=True)
    total_ms = models.IntegerField()
    finish_reason = models.CharField(max_length=40, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["user", "created_at"], name="model_call_user_day")]
        constraints = [models.UniqueConstraint(fields=["run", "call_index"], name="model_call_once")]

    def __str__(self) -> str:
        return f"{self.purpose} {self.model} {self.run_id}/{self.call_index}"
