"""A message that was sent while an answer was being written: it waits until the turn can take it in."""

from __future__ import annotations

import uuid

from django.db import models

from conversations.models.conversation import Conversation
from conversations.models.message import Message
from conversations.models.run import Run


class Steer(models.Model):
    """``run``: the turn it waits for. ``taken_at``: when that turn began to take it in; since then it cannot be withdrawn.

    ``message``: what it became, with which the words here are blanked, so that the transcript alone has them. The row stays,
    so that sending it again finds what became of it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="steers")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steers")
    client_key = models.CharField(max_length=200, null=True, blank=True)
    request_hash = models.CharField(max_length=64)
    content = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)
    taken_at = models.DateTimeField(null=True, blank=True)
    message = models.OneToOneField(
        Message, on_delete=models.CASCADE, null=True, blank=True, related_name="steer"
    )

    class Meta:
        indexes = [
            models.Index(fields=["run"], condition=models.Q(message=None), name="steer_waiting"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["conversation", "client_key"], name="steer_client_key"),
        ]

    def __str__(self) -> str:
        return f"steer {self.id}"
