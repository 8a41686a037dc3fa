"""The search index of a transcript: one entry a message, with its words and what it is about.

An entry holds its own message's words only. The neighbours' words, which count for it as well, are looked up when
somebody searches: so an entry is never rewritten when the next message comes or a neighbour is taken back.
"""

from __future__ import annotations

from django.contrib.postgres.search import SearchVectorField
from django.db import models
from pgvector.django import HalfVectorField

from conversations.models.conversation import Conversation
from conversations.models.message import Message


class MessageEntry(models.Model):
    """Derived from the transcript and rebuilt from it at any time.

    ``words``: every lexeme with its places, all of one lexeme under one weight that tells how often it occurs: A four
    times and more, B two or three times, D once. ``length``: words of the message. ``vector``: what the message is
    about, of length one; null where no embedder was installed or it has no words.

    One index of the table is not declared here: ``message_entry_keys`` (migration 0006), a GIN index over a number for
    each pair of conversation and lexeme, which finds rare words of one conversation among millions of entries.
    """

    message = models.OneToOneField(Message, on_delete=models.CASCADE, primary_key=True, related_name="entry")
    # No index of its own: the constraint below begins with it.
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="entries", db_index=False
    )
    seq = models.IntegerField()
    role = models.CharField(max_length=16)
    length = models.IntegerField()
    words = SearchVectorField()
    vector = HalfVectorField(dimensions=256, null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["conversation", "seq"], name="message_entry_seq")]

    def __str__(self) -> str:
        return f"{self.conversation_id}/{self.seq}"
