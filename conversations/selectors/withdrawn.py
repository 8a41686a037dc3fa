"""Messages that were taken back: what a run could not see any more, and what may not be shown again since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

# Consecutive seqs of one kind become one row, so that the answer is as short as the edits were few.
_ISLANDS = """
SELECT min(seq), max(seq), before FROM (
    SELECT seq, before, seq - row_number() OVER (PARTITION BY before ORDER BY seq) AS island FROM (
        SELECT seq, LEAST(superseded_at, deleted_at) <= %(moment)s AS before FROM conversations_message
        WHERE conversation_id = %(conversation)s AND seq <= %(through)s
          AND (deleted_at IS NOT NULL OR superseded_at <= %(moment)s)
    ) withdrawn
) numbered GROUP BY before, island ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Ranges of seqs, both ends included. ``before``: no longer part of the conversation at the moment in question.

    ``deleted``: part of it then, and deleted since. What was only superseded since is in neither: it may be shown.
    """

    before: tuple[tuple[int, int], ...] = ()
    deleted: tuple[tuple[int, int], ...] = ()

    def deletes_any(self, seqs: Iterable[int]) -> bool:
        """Whether one of the seqs was deleted since."""
        return any(first <= seq <= last for seq in seqs for first, last in self.deleted)

    def deletes_within(self, from_seq: int, through_seq: int) -> bool:
        """Whether a message of the range was deleted since."""
        return any(first <= through_seq and from_seq <= last for first, last in self.deleted)

    def had_gone(self, seq: int) -> bool:
        """Whether the message was no longer part of the conversation at the moment in question."""
        return any(first <= seq <= last for first, last in self.before)


def withdrawn_read(*, conversation_id: UUID, through_seq: int, moment: datetime) -> Withdrawn:
    """What had been withdrawn up to a seq as of ``moment``, and what was deleted after it. One query."""
    values = {"conversation": conversation_id, "through": through_seq, "moment": moment}
    with connection.cursor() as cursor:
        cursor.execute(_ISLANDS, values)
        rows = cursor.fetchall()
    return Withdrawn(
        before=tuple((first, last) for first, last, before in rows if before),
        deleted=tuple((first, last) for first, last, before in rows if not before),
    )
