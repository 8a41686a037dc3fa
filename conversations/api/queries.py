"""Query strings and pages of the REST door: what may be asked for, and how lists look."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter
from pydantic import BaseModel, Field

from agentx.wire import StorableText, Wire
from conversations.wire import ConversationBody, MessageBody, RunBody, RunStatus, SteerBody

MessageSeq = Annotated[int, Field(ge=0, le=2_147_483_647)]
Cursor = Annotated[StorableText, Field(max_length=500)]


class ConversationsQuery(Wire):
    """``search`` looks for a part of the title, without regard to case."""

    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 30
    search: Annotated[StorableText, Field(max_length=200)] = ""


class MessagesQuery(Wire):
    """At most one of ``before`` and ``after``, both sequence numbers; without them the newest page."""

    before: MessageSeq | None = None
    after: MessageSeq | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 60


class UsageQuery(Wire):
    """``days``: how far back. ``conversation``: of this one alone."""

    days: Annotated[int, Field(ge=1, le=90)] = 14
    conversation: UUID | None = None


class RunsQuery(Wire):
    conversation: UUID | None = None
    status: RunStatus | None = None
    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 30


class EventsQuery(Wire):
    """``after``: the last seq the client has, 0 for none. ``epoch``: the log it came from, as ``attached`` says it."""

    after: MessageSeq = 0
    epoch: Annotated[StorableText, Field(max_length=100)] | None = None


class TurnQuery(Wire):
    """``stream``: answer with the run's events; ``wait``: answer when the run has ended. At most one of them."""

    stream: bool = False
    wait: bool = False


class ConversationPage(Wire):
    """``next`` is the cursor of the next page, null on the last."""

    results: list[ConversationBody]
    next: str | None


class MessageListPage(Wire):
    """Messages in ascending order of seq."""

    results: list[MessageBody]
    has_before: bool
    has_after: bool


class RunPage(Wire):
    results: list[RunBody]
    next: str | None


class SteerList(Wire):
    """Messages that wait for a run, in the order in which they were sent."""

    results: list[SteerBody]


class TurnEndedBody(Wire):
    """``answer`` is null when the run stored no text."""

    run: RunBody
    message: MessageBody
    answer: MessageBody | None


def query_parameters(model: type[BaseModel]) -> list[OpenApiParameter]:
    """The fields of a query model as OpenAPI parameters."""
    schema: dict[str, Any] = model.model_json_schema()
    return [
        OpenApiParameter(
            name=name,
            type={key: value for key, value in field.items() if key != "title"},
            required=name in schema.get("required", []),
        )
        for name, field in schema["properties"].items()
    ]
