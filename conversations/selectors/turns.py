"""Whole turns of the durable transcript, word for word, whatever of them is in view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from conversations.models import Message
from conversations.selectors import access


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: its messages in order. ``number``: from 1."""

    number: int
    messages: tuple[Message, ...]


def turns_read(
    *, user_id: int, conversation_id: UUID, first: int, last: int, before_turn: int | None = None
) -> tuple[Turn, ...]:
    """The turns from ``first`` to ``last`` of a conversation of this user, without what was deleted or superseded.

    ``before_turn``: nothing from this turn on. Raises ``NotFound`` when the conversation is not the user's.
    """
    rows = access.messages_of(user_id=user_id, conversation_id=conversation_id)
    rows = rows.filter(turn__gte=first, turn__lte=last)
    if before_turn is not None:
        rows = rows.filter(turn__lt=before_turn)
    return _group(list(rows.order_by("seq")))


def turns_count(*, user_id: int, conversation_id: UUID) -> int:
    """The number of the newest turn, 0 for none. Raises ``NotFound`` as above."""
    rows = access.messages_of(user_id=user_id, conversation_id=conversation_id)
    return rows.order_by("-seq").values_list("turn", flat=True).first() or 0


def _group(rows: Sequence[Message]) -> tuple[Turn, ...]:
    turns: dict[int, list[Message]] = {}
    for row in rows:
        turns.setdefault(row.turn, []).append(row)
    return tuple(Turn(number, tuple(messages)) for number, messages in turns.items())
