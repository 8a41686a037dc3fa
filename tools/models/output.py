"""Results of tools that are too long for a view, kept whole so that a model can read them in parts."""

from __future__ import annotations

import secrets

from django.db import models

# Lower case without 0, 1, l and o, of which models and people take one for another: five bits a character.
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
ID_CHARACTERS = 12
ID_PREFIX = "out_"


def new_output_id() -> str:
    """``out_`` and twelve characters, 60 bits that nobody can guess; short enough to be copied without a mistake."""
    return ID_PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(ID_CHARACTERS))


class ToolOutput(models.Model):
    """One result, whole. ``characters``: the length of ``content``.

    The key of a call is unique within one answer of a model only, so ``content_hash`` (sha256) belongs to what makes a
    result the same one. ``run`` is null where the call was made outside of a run.
    """

    class Kind(models.TextChoices):
        JSON = "json"
        CSV = "csv"
        MARKDOWN = "markdown"
        LOG = "log"
        TEXT = "text"

    id = models.CharField(primary_key=True, max_length=16, default=new_output_id, editable=False)
    # No index of its own: the constraint below begins with it.
    conversation = models.ForeignKey(
        "conversations.Conversation", on_delete=models.CASCADE, related_name="tool_outputs", db_index=False
    )
    run = models.ForeignKey(
        "conversations.Run", null=True, blank=True, on_delete=models.CASCADE, related_name="tool_outputs"
    )
    tool_call_id = models.CharField(max_length=200)
    tool = models.CharField(max_length=100)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    content = models.TextField()
    content_hash = models.CharField(max_length=64)
    characters = models.IntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "run", "tool_call_id", "content_hash"],
                name="tool_output_once",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.id} ({self.tool}, {self.characters} characters)"
