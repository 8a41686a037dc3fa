"""The statements behind a snapshot, written out: every turn waits for them, and building them anew from models takes
longer than running them (measured: 10 of 14 ms of a view without recall).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db import connection

from conversations.models import ContextEpoch, ModelRecord, Run

_MESSAGE = (
    *("id", "seq", "turn", "role", "content", "parts", "tool_calls", "tool_call_id", "artifact", "metadata"),
    *("chain_hash", "token_count", "tokenizer"),
)
_EPOCH = (
    *("number", "reason", "cut_seq", "cut_message_id", "covered_seq", "settled_seq", "revision"),
    *("model", "fingerprint", "blocks"),
)
_MODEL = (
    *("model_id", "max_input_tokens", "max_output_tokens", "prompt_caching", "strict_roles", "vision"),
    *("tools", "image_tokens", "learned_window", "calibration", "calibration_calls"),
)
# Tokens in the 12,000 characters that are sent of a result at most, in English.
RESULT_TOKENS = 3_000
_JSON = tuple(_MESSAGE.index(name) for name in ("parts", "tool_calls", "artifact", "metadata"))


class MessageRow(NamedTuple):
    """The columns of a message that a view is made of, with the names they have there."""

    id: int
    seq: int
    turn: int
    role: str
    content: str
    parts: list[Any]
    tool_calls: list[Any]
    tool_call_id: str
    artifact: Any
    metadata: dict[str, Any]
    chain_hash: str
    token_count: int
    tokenizer: str


class RunRow(NamedTuple):
    """A run with its question and what its conversation says of the view. ``created_at`` is the run's."""

    conversation_id: UUID
    model: str
    created_at: Any
    epoch: int
    revision: int
    calibration: float | None
    calibration_calls: int
    calibration_model: str
    question: MessageRow


def run_row(*, run_id: UUID) -> RunRow:
    """One run. Raises ``Run.DoesNotExist``."""
    columns = ", ".join(f"m.{name}" for name in _MESSAGE)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.conversation_id, r.model, r.created_at, c.epoch, c.revision, c.calibration,"
            f" c.calibration_calls, c.calibration_model, {columns}"
            " FROM conversations_run r JOIN conversations_conversation c ON c.id = r.conversation_id"
            " JOIN conversations_message m ON m.id = r.user_message_id WHERE r.id = %s",
            [run_id],
        )
        row = cursor.fetchone()
    if row is None:
        raise Run.DoesNotExist(f"there is no run {run_id}")
    return RunRow(*row[:8], question=_message_row(row[8:]))


def history_rows(
    *, conversation_id: UUID, after_seq: int, before_seq: int, most_rows: int, most_tokens: int
) -> tuple[list[MessageRow], bool]:
    """The newest live messages of a range, oldest first, and whether the bounds left older ones unread.

    At most ``most_rows``, and no more than have ``most_tokens`` together, but always the newest. A tool's result counts
    as what is sent of it at most: one huge result must not push every older turn out of view. The long columns are
    fetched for those alone.
    """
    columns = ", ".join(f"m.{name}" for name in _MESSAGE)
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH newest AS MATERIALIZED ("
            "   SELECT id, sum(token_count) OVER w AS tokens, row_number() OVER w AS place FROM ("
            "     SELECT id, seq, CASE role WHEN 'tool' THEN least(token_count, %s) ELSE token_count END AS token_count"
            "     FROM conversations_message"
            "     WHERE conversation_id = %s AND seq > %s AND seq < %s"
            "       AND superseded_at IS NULL AND deleted_at IS NULL ORDER BY seq DESC LIMIT %s"
            "   ) AS bounded WINDOW w AS (ORDER BY seq DESC)"
            ")"
            f" SELECT (SELECT count(*) FROM newest), {columns} FROM newest JOIN conversations_message m USING (id)"
            " WHERE place = 1 OR (place <= %s AND tokens <= %s) ORDER BY m.seq",
            [RESULT_TOKENS, conversation_id, after_seq, before_seq, most_rows + 1, most_rows, most_tokens],
        )
        rows = cursor.fetchall()
    return [_message_row(row[1:]) for row in rows], bool(rows) and rows[0][0] > len(rows)


def epoch_row(*, conversation_id: UUID, number: int) -> ContextEpoch:
    """One epoch without segments and evidence. Raises ``ContextEpoch.DoesNotExist``."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join(_EPOCH)} FROM conversations_contextepoch"
            " WHERE conversation_id = %s AND number = %s",
            [conversation_id, number],
        )
        row = cursor.fetchone()
    if row is None:
        raise ContextEpoch.DoesNotExist(f"conversation {conversation_id} has no epoch {number}")
    fields = dict(zip(_EPOCH, row, strict=True))
    return ContextEpoch(**{**fields, "blocks": _json(fields["blocks"])})


def model_row(*, model: str) -> ModelRecord | None:
    """What is recorded of a model id."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join(_MODEL)} FROM conversations_modelrecord WHERE model_id = %s", [model]
        )
        row = cursor.fetchone()
    return None if row is None else ModelRecord(**dict(zip(_MODEL, row, strict=True)))


def previous_record(*, conversation_id: UUID, before: Any, fields: Sequence[str]) -> dict[str, Any] | None:
    """Some fields of the newest view record of a conversation, of runs created before ``before`` where that is given."""
    wanted = ", ".join(["view -> %s"] * len(fields))
    earlier, values = ("", []) if before is None else (" AND created_at < %s", [before])
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {wanted} FROM conversations_run WHERE conversation_id = %s AND view IS NOT NULL{earlier}"
            " ORDER BY created_at DESC LIMIT 1",
            [*fields, conversation_id, *values],
        )
        row = cursor.fetchone()
    if row is None:
        return None
    return {name: _json(value) for name, value in zip(fields, row, strict=True)}


def _message_row(values: Sequence[Any]) -> MessageRow:
    fields = list(values)
    for place in _JSON:
        fields[place] = _json(fields[place])
    return MessageRow._make(fields)


def _json(value: Any) -> Any:
    """Django's connections give ``jsonb`` as text."""
    return orjson.loads(value) if isinstance(value, str) else value
