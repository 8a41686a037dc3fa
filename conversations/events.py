"""Every event of a run, and every frame of the conversation socket, one class each.

An event has a sequence number, belongs to a run and is logged; it reaches every listener and every later attach. A
frame answers one socket and is not logged. The browser's types are generated from these classes, and the golden test
validates what both transports really send against them.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, cast, get_args
from uuid import UUID

import orjson
from pydantic import Field, TypeAdapter

from conversations.wire import (
    ClientKey,
    MessageBody,
    MessageContent,
    PartialBody,
    RunBody,
    RunStatus,
    SteerBody,
    TimingsBody,
    UsageBody,
    Wire,
)

StatusPhase = Literal["composing", "thinking", "waiting", "rate_limited", "running_tool", "model_fallback"]
Seq = Annotated[int, Field(ge=0, le=9_007_199_254_740_991)]  # the largest integer JavaScript holds exactly


class EventData(Wire):
    """Base of the ``data`` of a logged event; ``type`` is its name on the wire."""

    type: ClassVar[str]


class RunStarted(EventData):
    type: ClassVar[str] = "run_started"
    conversation_id: UUID
    user_message_seq: int
    model: str
    epoch: str


class Status(EventData):
    """What is going on while there is no text. ``seconds``: how long it has lasted, or will, where that is known."""

    type: ClassVar[str] = "status"
    phase: StatusPhase
    label: str
    seconds: int | None = None


class BlockGrant(Wire):
    """One row of the allocation: tokens asked for and granted."""

    key: str
    asked: int
    granted: int
    action: Literal["full", "shrunk", "dropped"]


class ContextReport(EventData):
    """The allocation of the view that is about to be sent. All figures are tokens, estimated by ``tokenizer``.

    ``epoch``: requests of one epoch extend each other; ``epoch_reason``: why it began. ``recalled_turns``: turns that
    are quoted although they have left the view. ``summarized``: a digest stands for turns that have. ``predicted_cached``:
    how much of the prompt a provider that caches prefixes should have from the last call.
    """

    type: ClassVar[str] = "context"
    window: int
    budget: int
    used: int
    tokenizer: str
    blocks: list[BlockGrant]
    dropped_turns: int
    summarized: bool
    epoch: int
    epoch_reason: Literal["start", "cut", "forms", "edit", "model", "prompt", "tools"]
    recalled_turns: list[int]
    predicted_cached: int | None


class Delta(EventData):
    """More of the answer's text."""

    type: ClassVar[str] = "delta"
    text: str


class Thinking(EventData):
    """More of the model's reasoning: shown live, never stored with the answer."""

    type: ClassVar[str] = "thinking"
    text: str


class ToolCalled(EventData):
    """A tool begins to run. The first of a step ends its text: what the deltas added up to so far was said beside the
    calls. ``arguments``: as the model wrote them, long ones cut."""

    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    label: str
    arguments: str


class ToolReturned(EventData):
    """A tool has ended. ``summary``: the first words of its result or of what went wrong."""

    type: ClassVar[str] = "tool_result"
    id: str
    name: str
    ok: bool
    summary: str
    duration_ms: int


class Steered(EventData):
    """A message that was sent during the turn has been taken in: it stands behind the steps so far, as ``message``.

    ``steer_id``: what the sender knows it by.
    """

    type: ClassVar[str] = "steer"
    steer_id: UUID
    message: MessageBody


class MessageStored(EventData):
    """The answer as it was stored; its content replaces whatever the deltas added up to since the last step."""

    type: ClassVar[str] = "message"
    message: MessageBody


class ContextUse(Wire):
    """How full the window was. ``summarized`` and ``dropped_turns``: what of the conversation was not in view."""

    used: int
    window: int
    summarized: bool = False
    dropped_turns: int = 0


class Done(EventData):
    """The run ended with what the model had to say, or was stopped by a person (``finish_reason`` ``stopped``)."""

    type: ClassVar[str] = "done"
    status: Literal["completed", "cancelled"]
    finish_reason: str
    truncated: bool
    usage: UsageBody
    timings: TimingsBody
    context: ContextUse | None


class RunError(EventData):
    """The run ended without a whole answer; what had come is in the ``message`` event before this one.

    ``details``: the figures behind it, where there are any.
    """

    type: ClassVar[str] = "error"
    code: str
    message: str
    retryable: bool
    stalled: bool = False
    details: dict[str, Any] | None = None


class Close(EventData):
    """Always the last event, exactly once."""

    type: ClassVar[str] = "close"
    status: RunStatus


EVENT_TYPES: dict[str, type[EventData]] = {
    cls.type: cls
    for cls in (
        RunStarted,
        Status,
        ContextReport,
        Delta,
        Thinking,
        ToolCalled,
        ToolReturned,
        Steered,
        MessageStored,
        Done,
        RunError,
        Close,
    )
}


def encode_event(*, run_id: str, seq: int, data: EventData) -> bytes:
    """The JSON of one event, in the form in which it is logged and sent: ``seq, type, run_id, data``."""
    body = data.model_dump(mode="json")
    return orjson.dumps({"seq": seq, "type": data.type, "run_id": run_id, "data": body})


def encode_text(*, run_id: str, seq: int, kind: type[Delta] | type[Thinking], text: str) -> bytes:
    """The same for the two events that make up nearly all of a log, without the object between."""
    return orjson.dumps({"seq": seq, "type": kind.type, "run_id": run_id, "data": {"text": text}})


def decode_event(payload: bytes | str) -> tuple[int, EventData]:
    """The inverse of :func:`encode_event`. Raises ``ValueError`` on unknown types, missing or unknown fields."""
    parsed: object = orjson.loads(payload)
    body = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    if set(body) != {"seq", "type", "run_id", "data"}:
        raise ValueError("an event has exactly seq, type, run_id and data")
    kind = EVENT_TYPES.get(body["type"])
    if kind is None:
        raise ValueError(f"unknown event type {body['type']!r}")
    return int(body["seq"]), kind.model_validate(body["data"])


# ---- frames from the server that are not events ---------------------------------------------------------------------


class Accepted(Wire):
    """The answer to ``send``: message and run are committed. The run's events follow on the same socket."""

    type: Literal["accepted"] = "accepted"
    client_key: str | None
    run: RunBody
    message: MessageBody
    created: bool


class Refused(Wire):
    """A command could not be carried out; nothing was changed."""

    type: Literal["refused"] = "refused"
    command: str
    client_key: str | None = None
    code: str
    message: str
    retryable: bool
    details: dict[str, Any] = Field(default_factory=dict)


class Attached(Wire):
    """Events of the run with a seq greater than ``after`` follow, each once, in order."""

    type: Literal["attached"] = "attached"
    run_id: UUID
    epoch: str
    after: int


class Reset(Wire):
    """The log no longer holds what was asked for. Replace the shown text by ``partial``; events continue after it."""

    type: Literal["reset"] = "reset"
    run_id: UUID
    epoch: str
    run_status: RunStatus
    partial: PartialBody


class RunMissing(Wire):
    """The run is over and its log has expired: reload the conversation, which is the truth."""

    type: Literal["run_missing"] = "run_missing"
    run_id: UUID
    run_status: RunStatus


class Stopping(Wire):
    """The answer to ``stop``. ``status`` is final when the run had already ended."""

    type: Literal["stopping"] = "stopping"
    run_id: UUID
    status: RunStatus


class Steering(Wire):
    """The answer to ``steer`` and to ``withdraw``: where the message stands. ``withdrawn``: it is gone, nothing was sent."""

    type: Literal["steering"] = "steering"
    client_key: str | None
    steer: SteerBody
    withdrawn: bool = False


class Waiting(Wire):
    """All messages that wait for a run, whenever one comes or is taken back; in the order in which they were sent."""

    type: Literal["waiting"] = "waiting"
    run_id: UUID
    steers: list[SteerBody]


class Titled(Wire):
    """The conversation has another title."""

    type: Literal["titled"] = "titled"
    title: str


class Live(Wire):
    """Whether live text can be delivered at the moment; the run goes on either way."""

    type: Literal["live"] = "live"
    available: bool
    message: str


class Pong(Wire):
    type: Literal["pong"] = "pong"


ServerFrame = (
    Accepted | Refused | Attached | Reset | RunMissing | Stopping | Steering | Waiting | Titled | Live | Pong
)
SERVER_FRAMES: tuple[type[Wire], ...] = get_args(ServerFrame)

# ---- commands from the browser --------------------------------------------------------------------------------------


class SendCommand(Wire):
    """As ``TurnIn``, but the key is required: a socket that breaks must be able to send again."""

    type: Literal["send"]
    content: MessageContent
    client_key: ClientKey
    expected_head: Annotated[int, Field(ge=0, le=2_147_483_647)] | None = None


class StopCommand(Wire):
    type: Literal["stop"]
    run_id: UUID


class SteerCommand(Wire):
    """A message for the run that is at work; refused with ``run_ended`` when it is not, and then to be sent as a turn."""

    type: Literal["steer"]
    run_id: UUID
    content: MessageContent
    client_key: ClientKey


class WithdrawCommand(Wire):
    """Take back a message that still waits for its run."""

    type: Literal["withdraw"]
    steer_id: UUID


class AttachCommand(Wire):
    """``after``: the last seq the client has, 0 for none. ``epoch``: the log it came from, when ``after`` > 0."""

    type: Literal["attach"]
    run_id: UUID
    after: Seq = 0
    epoch: str | None = None


class PingCommand(Wire):
    type: Literal["ping"]


ClientCommand = Annotated[
    SendCommand | StopCommand | SteerCommand | WithdrawCommand | AttachCommand | PingCommand,
    Field(discriminator="type"),
]
Command = SendCommand | StopCommand | SteerCommand | WithdrawCommand | AttachCommand | PingCommand
CLIENT_COMMAND: TypeAdapter[Command] = TypeAdapter(ClientCommand)
