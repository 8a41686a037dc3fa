"""A conversation: who owns it, and the counters that let a message be appended without reading the others."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models


class Conversation(models.Model):
    """``next_seq``, ``next_turn``, ``head_hash`` and ``total_tokens`` describe the end of the transcript.

    They change only under the row's lock, together with the message they describe. ``revision`` counts the edits and
    deletions that took messages out of the live transcript. ``epoch``, ``cut_seq`` (the last seq that has left the
    view, 0 for none), ``cut_message_id`` (its row) and ``settled_seq`` (up to it, messages are sent in their shortened
    form) describe the view; they advance together, by compare-and-set on ``epoch``. ``calibration`` is reported ÷
    estimated prompt tokens of this conversation, smoothed over ``calibration_calls`` calls of ``calibration_model``.
    ``title_asked``: a model was asked for a better title than the derived one, which happens once.
    """

    class TitleSource(models.TextChoices):
        DERIVED = "derived"
        MODEL = "model"
        PERSON = "person"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="conversations"
    )
    title = models.CharField(max_length=200, blank=True, default="")
    title_source = models.CharField(
        max_length=8, choices=TitleSource.choices, blank=True, default="", db_default=""
    )
    title_asked = models.BooleanField(default=False, db_default=False)
    next_seq = models.IntegerField(default=1)
    next_turn = models.IntegerField(default=1)
    head_hash = models.CharField(max_length=64, default="")
    total_tokens = models.BigIntegerField(default=0)
    last_input_tokens = models.IntegerField(null=True, blank=True)
    revision = models.IntegerField(default=0, db_default=0)
    epoch = models.IntegerField(default=0, db_default=0)
    cut_seq = models.IntegerField(default=0, db_default=0)
    cut_message_id = models.BigIntegerField(null=True, blank=True)
    settled_seq = models.IntegerField(default=0, db_default=0)
    compactions = models.IntegerField(default=0, db_default=0)
    calibration = models.FloatField(null=True, blank=True)
    calibration_calls = models.IntegerField(default=0, db_default=0)
    calibration_model = models.CharField(max_length=200, blank=True, default="", db_default="")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now_add=True, help_text="When something was last said")

    class Meta:
        indexes = [
            models.Index(fields=["owner", "-updated_at", "-id"], name="conversation_recent"),
            models.Index(fields=["updated_at"], name="conversation_updated"),
        ]
        constraints = [
            models.CheckConstraint(condition=models.Q(next_seq__gte=1), name="conversation_next_seq")
        ]

    def __str__(self) -> str:
        return str(
            self.id
        )  # not the title: it quotes the first message, and str() reaches logs and the admin
