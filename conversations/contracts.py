"""Frozen values that cross module lines inside a turn: the claim a runner holds, and what became of the turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agentx.llm.messages import ToolSchema
from conversations.wire import ErrorBody, MessageBody, MessageStatus, RunBody, RunStatus
from tools.contracts import Executed, Role


@dataclass(frozen=True, slots=True)
class RunClaim:
    """A runner's right to execute one run. ``token`` is void once another process has claimed or settled the run.

    ``turn``: the number of its turn. ``role``: what its user may have done on their behalf. ``steered``: messages wait for
    it already.
    """

    run_id: UUID
    conversation_id: UUID
    user_id: int
    user_message_seq: int
    model: str
    token: UUID
    attempt: int
    queued_ms: int
    turn: int
    role: Role = "user"
    steered: bool = False

    @property
    def epoch(self) -> str:
        return f"{self.run_id}:{self.attempt}"


@dataclass(frozen=True, slots=True)
class CallUsage:
    """One model call as reported. Token figures are None where the provider did not say; times in milliseconds.

    ``estimated_prompt_tokens``: with ``calibration`` in it. ``provider``: the host that was asked, of ``base_url``.
    ``billed``: dollars, as the provider says. ``finish_reason``: ``refused`` where the provider did not take the request,
    which costs nothing.
    """

    call_index: int
    model: str
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    estimated_prompt_tokens: int
    first_token_ms: int | None
    total_ms: int
    finish_reason: str
    predicted_cached_tokens: int | None = None
    calibration: float = 1.0
    provider: str = ""
    base_url: str = ""
    billed: float | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One step on the way to an answer. ``text``: what the model said beside its calls; ``executed``: in their order."""

    text: str
    executed: tuple[Executed, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended, ready to be stored. ``text`` may be empty only when ``status`` is not ``completed``.

    ``unstored``: a step that was carried out and that no request has shown. ``tools``: what the view told the model of.
    """

    status: RunStatus
    message_status: MessageStatus
    text: str
    finish_reason: str
    truncated: bool
    had_thinking: bool
    calls: tuple[CallUsage, ...]
    error: ErrorBody | None
    first_token_ms: int | None
    total_ms: int | None
    allocation: dict[str, Any] | None = field(default=None)
    view: dict[str, Any] | None = field(default=None)
    unstored: Exchange | None = None
    tools: tuple[ToolSchema, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """A run in its terminal state and the answer that was stored for it, if there was any text."""

    run: RunBody
    answer: MessageBody | None
