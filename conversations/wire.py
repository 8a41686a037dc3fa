"""The shapes that cross the network, shared by REST, WebSocket and SSE.

They live in one module so that a message looks the same in a page of history, in an event and in a frame. The OpenAPI
schema, and from it the TypeScript types, are generated from these classes. Unknown fields are refused on the way in.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from agentx.wire import StorableText, VisibleText, Wire

MessageRole = Literal["user", "assistant", "tool"]
MessageStatus = Literal["complete", "stopped", "interrupted", "failed"]
RunStatus = Literal["queued", "running", "completed", "failed", "cancelled", "interrupted"]

# 200 characters: an id, not a document; a UUID has 36.
ClientKey = Annotated[StorableText, Field(min_length=1, max_length=200)]
# One million characters is far above any window; the real limit is the model's, checked in tokens at submission.
MessageContent = Annotated[VisibleText, Field(max_length=1_000_000)]
ConversationTitle = Annotated[VisibleText, Field(max_length=200)]


# The finish reason of a call that its provider refused.
REFUSED = "refused"


class KnownUsageBody(Wire):
    """What is known of a run some of whose ``calls`` were not ``reported`` or have no cost: a part, never a total."""

    calls: int
    reported: int
    prompt_tokens: int
    output_tokens: int
    cost: float | None


class UsageBody(Wire):
    """Tokens of a whole run, as the provider reported them, and its cost. A total is ``None`` where any call lacks it, and
    then ``known`` has the part that is known. ``usage_complete``: prompt and output tokens are totals.

    ``cost``: dollars; ``cost_source``: ``provider`` where all of it was billed so, else ``estimate`` (price times tokens).
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_complete: bool = False
    cost: float | None = None
    cost_source: Literal["provider", "estimate"] | None = None
    known: KnownUsageBody | None = None


class UsageRowBody(Wire):
    """Calls of one day (UTC), model and purpose. Sums are over what is known: ``unreported_calls`` named no tokens,
    ``unpriced_calls`` have no cost. ``cost``: dollars; null where none is known.
    """

    day: date
    model: str
    purpose: Literal["chat", "summarize", "title", "extract", "embed"]
    calls: int
    unreported_calls: int
    unpriced_calls: int
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cost: float | None
    cost_source: Literal["provider", "estimate"] | None


class UsageReportBody(Wire):
    """``cost``: of the calls that have one; ``unpriced_calls`` have none."""

    days: int
    rows: list[UsageRowBody]
    calls: int
    unpriced_calls: int
    cost: float | None


class TimingsBody(Wire):
    """Milliseconds. ``queued``: acceptance to claim; ``first_token``: claim to first visible or thinking text."""

    queued_ms: int | None = None
    first_token_ms: int | None = None
    total_ms: int | None = None


class ErrorBody(Wire):
    """Why a run failed. ``message`` says what a person can do. ``details``: figures behind it, where there are any."""

    code: str
    message: str
    retryable: bool
    stalled: bool = False
    details: dict[str, Any] | None = None


class ToolCallBody(Wire):
    """A call the model made. ``label``: what people read; ``arguments``: JSON as the model wrote it, which may be malformed."""

    id: str
    name: str
    label: str
    arguments: str


class MessageBody(Wire):
    """A stored message. ``metadata`` of an answer: model (and requested_model, where another one answered), usage, timings, finish_reason, truncated, context; of a tool's
    result: ok, duration_ms, summary; of a message that was taken into a turn on its way: steered.

    An assistant message with ``tool_calls`` is a step on the way to an answer; its ``content`` may be empty. A message of
    the role ``tool`` is the result of the call ``tool_call_id`` of the step before it.
    """

    id: int
    seq: int
    turn: int
    role: MessageRole
    content: str
    status: MessageStatus
    tool_calls: list[ToolCallBody]
    tool_call_id: str
    run_id: UUID | None
    metadata: dict[str, Any]
    created_at: datetime


class PartialBody(Wire):
    """Text of an unfinished answer as of event ``seq``; following events continue it at ``seq + 1``."""

    text: str
    seq: int


class RunBody(Wire):
    """A run: one attempt to answer one user message. ``epoch`` names the event log its sequence numbers belong to."""

    id: UUID
    conversation_id: UUID
    status: RunStatus
    epoch: str
    user_message_seq: int
    model: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested: bool
    finish_reason: str | None
    final_seq: int | None
    usage: UsageBody | None
    timings: TimingsBody | None
    error: ErrorBody | None


class ConversationBody(Wire):
    """A conversation as lists show it. ``head`` is the newest message's seq, 0 when there is none."""

    id: UUID
    title: str
    created_at: datetime
    updated_at: datetime
    head: int
    active_run: RunBody | None


class TurnIn(Wire):
    """A message to send. ``client_key`` makes a resend return the first run instead of sending twice."""

    content: MessageContent
    client_key: ClientKey | None = None
    expected_head: Annotated[int, Field(ge=0, le=2_147_483_647)] | None = None


class SteerIn(Wire):
    """A message for a turn that is being answered. ``client_key``: as in ``TurnIn``."""

    content: MessageContent
    client_key: ClientKey | None = None


class SteerBody(Wire):
    """A message that was sent while an answer was being written.

    ``waiting``: it can still be withdrawn. ``taken``: the turn is taking it in. ``stored``: it is the message ``seq`` of the
    transcript, in the turn it was meant for or, where that ended before, as the question of the next one, ``run_id``.
    """

    id: UUID
    run_id: UUID
    client_key: str | None
    content: str
    status: Literal["waiting", "taken", "stored"]
    seq: int | None
    created_at: datetime


class TurnAcceptedBody(Wire):
    """``created`` is false when ``client_key`` was seen before: the first run and message are returned."""

    run: RunBody
    message: MessageBody
    created: bool


class ConversationIn(Wire):
    title: ConversationTitle | None = None


class ConversationPatch(Wire):
    title: ConversationTitle
