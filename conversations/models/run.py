"""A run: one attempt to answer one user message, owned by at most one runner at a time under a lease."""

from __future__ import annotations

import uuid

from django.db import models

from conversations.models.conversation import Conversation
from conversations.models.message import Message


class Run(models.Model):
    """The outbox of a turn and the record of what became of it.

    ``lease_token`` changes with every claim and settlement; a writer whose token is stale changes nothing.
    ``view`` holds what the view cannot be derived from otherwise (see ``conversations.context.record``).
    ``partial_text`` is the checkpoint as of event ``partial_seq``. ``final_seq`` is the seq of the ``close`` event.
    """

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"
        INTERRUPTED = "interrupted"

    ACTIVE = (Status.QUEUED, Status.RUNNING)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="runs")
    user_message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="runs")
    client_key = models.CharField(max_length=200, null=True, blank=True)
    request_hash = models.CharField(max_length=64)
    model = models.CharField(max_length=200)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.QUEUED)
    attempt = models.IntegerField(default=0)
    lease_owner = models.CharField(max_length=200, blank=True, default="")
    lease_token = models.UUIDField(default=uuid.uuid4)
    lease_until = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    cancel_requested = models.BooleanField(default=False)
    partial_text = models.TextField(blank=True, default="")
    partial_seq = models.IntegerField(default=0)
    final_seq = models.IntegerField(null=True, blank=True)
    finish_reason = models.CharField(max_length=40, null=True, blank=True)
    usage = models.JSONField(null=True, blank=True)
    timings = models.JSONField(null=True, blank=True)
    allocation = models.JSONField(null=True, blank=True)
    view = models.JSONField(null=True, blank=True)
    error = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["conversation", "-created_at"], name="run_conversation_recent"),
            models.Index(fields=["created_at"], condition=models.Q(status="queued"), name="run_queue"),
            models.Index(fields=["lease_until"], condition=models.Q(status="running"), name="run_leases"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["conversation"],
                condition=models.Q(status__in=["queued", "running"]),
                name="run_one_active",
            ),
            models.UniqueConstraint(fields=["conversation", "client_key"], name="run_client_key"),
            models.CheckConstraint(
                condition=models.Q(
                    status__in=["queued", "running", "completed", "failed", "cancelled", "interrupted"]
                ),
                name="run_status",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=["queued", "running"]) | models.Q(final_seq__isnull=False),
                name="run_ended_has_final_seq",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.id}"

    @property
    def epoch(self) -> str:
        """Names the event log that sequence numbers belong to: a new attempt would start a new log."""
        return f"{self.id}:{max(self.attempt, 1)}"  # a queued run already names the log of its first attempt
