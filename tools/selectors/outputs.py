"""The one way to stored results: those of one conversation of one person, whose messages are still in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Substr

from agentx.errors import NotFound
from conversations.models import Message
from tools.models import ToolOutput

_ID = re.compile(r"out_[a-z0-9]{12}")


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """A stored result, or a part of it. ``content``: what was asked for; ``characters``: of the whole."""

    id: str
    kind: str
    characters: int
    content: str


def outputs_of(*, user_id: int, conversation_id: UUID) -> QuerySet[ToolOutput]:
    """The results stored in this conversation, if it is the user's, without those that were withdrawn with their messages.

    While a step is being carried out its results have no messages yet; they count.
    """
    withdrawn = Message.objects.filter(
        Q(deleted_at__isnull=False) | Q(superseded_at__isnull=False),
        conversation=OuterRef("conversation"),
        run=OuterRef("run"),
        role=Message.Role.TOOL,
        tool_call_id=OuterRef("tool_call_id"),
    )
    return ToolOutput.objects.filter(
        ~Exists(withdrawn), conversation_id=conversation_id, conversation__owner_id=user_id
    )


def output_read(*, user_id: int, conversation_id: UUID, output_id: str) -> StoredOutput:
    """A result, whole. Raises ``NotFound`` alike for ids of others, of deleted results, and for what is no id."""
    return _read(outputs_of(user_id=user_id, conversation_id=conversation_id), output_id, "content")


def output_page(
    *, user_id: int, conversation_id: UUID, output_id: str, start: int, most: int
) -> StoredOutput:
    """At most ``most`` characters of a result, from character ``start`` (from 0) on. Raises as :func:`output_read`."""
    rows = outputs_of(user_id=user_id, conversation_id=conversation_id)
    return _read(rows.annotate(page=Substr("content", start + 1, most)), output_id, "page")


def _read(rows: QuerySet[ToolOutput], output_id: str, field: str) -> StoredOutput:
    # What is no id is not looked up: the database would refuse some of it, which is another answer.
    found = _ID.fullmatch(output_id) and (
        rows.filter(pk=output_id).values_list("id", "kind", "characters", field).first()
    )
    if not found:
        raise NotFound("There is no such result")
    return StoredOutput(*found)
