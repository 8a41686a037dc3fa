"""The REST door of conversations: parse, call one service or selector, answer its body."""

from __future__ import annotations

import re
from typing import TypeVar
from uuid import UUID

from asgiref.sync import async_to_sync
from django.http import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from agentx.errors import Conflict, InvalidInput
from agentx.http import release_connection
from agentx.problems import problems
from agentx.rest import ApiView, parse_body, parse_query
from conversations.api import queries, streams
from conversations.selectors import access, history
from conversations.selectors.bodies import run_body
from conversations.selectors.steers import steers_waiting
from conversations.selectors.usage import usage_report
from conversations.services.cancel import run_cancel
from conversations.services.conversations import conversation_create, conversation_delete, conversation_rename
from conversations.services.leases import runs_settle_in_passing
from conversations.services.steer import steer_withdraw, turn_steer
from conversations.services.submit import turn_submit
from conversations.wire import (
    ConversationBody,
    ConversationIn,
    ConversationPatch,
    RunBody,
    SteerBody,
    SteerIn,
    TurnAcceptedBody,
    TurnIn,
    UsageReportBody,
)

Keyed = TypeVar("Keyed", TurnIn, SteerIn)
READS = problems(400, 401, 404, 503)
WRITES = problems(400, 401, 403, 404, 413, 415, 503)
TURN_RESULT = PolymorphicProxySerializer(
    component_name="TurnResultBody",
    serializers=[TurnAcceptedBody, queries.TurnEndedBody],
    resource_type_field_name=None,
)
EVENTS = {(200, "text/event-stream"): str}
KEY_HEADER = OpenApiParameter(
    "Idempotency-Key",
    type={"type": "string", "minLength": 1, "maxLength": 200},
    location=OpenApiParameter.HEADER,
    description="The same as `client_key` in the body",
)
LAST_EVENT_ID = OpenApiParameter(
    "Last-Event-ID",
    type={"type": "string", "pattern": "^[0-9]{1,10}$"},
    location=OpenApiParameter.HEADER,
    description="The last seq the client has; goes before `after`",
)


class ConversationsView(ApiView):
    @extend_schema(
        operation_id="conversations_list",
        tags=["conversations"],
        parameters=queries.query_parameters(queries.ConversationsQuery),
        responses={200: queries.ConversationPage, **READS},
    )
    def get(self, request: Request) -> Response:
        """Your conversations, newest activity first."""
        query = parse_query(queries.ConversationsQuery, request)
        runs_settle_in_passing(user_id=request.user.pk)
        results, cursor = history.conversation_page(
            user_id=request.user.pk, cursor=query.cursor, limit=query.limit, search=query.search
        )
        return Response(queries.ConversationPage(results=results, next=cursor))

    @extend_schema(
        operation_id="conversation_create",
        tags=["conversations"],
        request=ConversationIn,
        responses={201: ConversationBody, **WRITES},
    )
    def post(self, request: Request) -> Response:
        """A new, empty conversation. Without a title the first message gives it one."""
        body = parse_body(ConversationIn, request)
        return Response(conversation_create(user_id=request.user.pk, title=body.title), status=201)


class ConversationView(ApiView):
    @extend_schema(
        operation_id="conversation_read", tags=["conversations"], responses={200: ConversationBody, **READS}
    )
    def get(self, request: Request, conversation_id: UUID) -> Response:
        """One conversation with its active run, if it has one."""
        runs_settle_in_passing(user_id=request.user.pk)
        return Response(history.conversation_read(user_id=request.user.pk, conversation_id=conversation_id))

    @extend_schema(
        operation_id="conversation_rename",
        tags=["conversations"],
        request=ConversationPatch,
        responses={200: ConversationBody, **WRITES},
    )
    def patch(self, request: Request, conversation_id: UUID) -> Response:
        """Give a conversation another title."""
        access.conversation_get(user_id=request.user.pk, conversation_id=conversation_id)
        body = parse_body(ConversationPatch, request)
        return Response(
            conversation_rename(user_id=request.user.pk, conversation_id=conversation_id, title=body.title)
        )

    @extend_schema(
        operation_id="conversation_delete",
        tags=["conversations"],
        responses={204: None, **READS, **problems(403)},
    )
    def delete(self, request: Request, conversation_id: UUID) -> Response:
        """Delete a conversation with everything in it. A running answer is stopped first."""
        conversation_delete(user_id=request.user.pk, conversation_id=conversation_id)
        return Response(status=204)


class MessagesView(ApiView):
    @extend_schema(
        operation_id="messages_list",
        tags=["conversations"],
        parameters=queries.query_parameters(queries.MessagesQuery),
        responses={200: queries.MessageListPage, **READS},
    )
    def get(self, request: Request, conversation_id: UUID) -> Response:
        """A page of messages in ascending order: the newest, or those before or after a seq."""
        query = parse_query(queries.MessagesQuery, request)
        page = history.message_page(
            user_id=request.user.pk,
            conversation_id=conversation_id,
            before=query.before,
            after=query.after,
            limit=query.limit,
        )
        return Response(
            queries.MessageListPage(
                results=page.results, has_before=page.has_before, has_after=page.has_after
            )
        )


class TurnsView(ApiView):
    @extend_schema(
        operation_id="turn_submit",
        tags=["turns"],
        parameters=[*queries.query_parameters(queries.TurnQuery), KEY_HEADER],
        request=TurnIn,
        responses={
            (200, "application/json"): TURN_RESULT,
            **EVENTS,
            202: TurnAcceptedBody,
            **WRITES,
            **problems(409, 422, 429),
        },
    )
    def post(self, request: Request, conversation_id: UUID) -> HttpResponseBase:
        """Send a message. 202 once message and run are stored; a repeated key answers 200 with the first run.

        With `stream=true` the answer is the run's events as they come; with `wait=true` it is the run and its answer
        once it has ended, or 202 if that takes more than ten minutes.
        """
        query = parse_query(queries.TurnQuery, request)
        if query.stream and query.wait:
            raise InvalidInput("Give either stream or wait", errors={"wait": ["excludes stream"]})
        body = _keyed_body(TurnIn, request)
        accepted = turn_submit(
            user_id=request.user.pk,
            conversation_id=conversation_id,
            content=body.content,
            client_key=body.client_key,
            expected_head=body.expected_head,
        )
        if query.stream:
            return streams.turn_stream(user_id=request.user.pk, accepted=accepted)
        if query.wait:
            return self._wait(request.user.pk, accepted)
        return Response(accepted, status=202 if accepted.created else 200)

    def _wait(self, user_id: int, accepted: TurnAcceptedBody) -> Response:
        release_connection()
        run_id = accepted.run.id
        if not async_to_sync(streams.run_end_wait)(user_id=user_id, run_id=run_id):
            return Response(accepted, status=202)
        run = run_body(access.run_get(user_id=user_id, run_id=run_id))
        answer = history.message_by_run(user_id=user_id, run_id=run_id)
        return Response(queries.TurnEndedBody(run=run, message=accepted.message, answer=answer))


class RunsView(ApiView):
    @extend_schema(
        operation_id="runs_list",
        tags=["runs"],
        parameters=queries.query_parameters(queries.RunsQuery),
        responses={200: queries.RunPage, **READS},
    )
    def get(self, request: Request) -> Response:
        """Your runs, newest first."""
        query = parse_query(queries.RunsQuery, request)
        runs_settle_in_passing(user_id=request.user.pk)
        results, cursor = history.run_page(
            user_id=request.user.pk,
            conversation_id=query.conversation,
            status=query.status,
            cursor=query.cursor,
            limit=query.limit,
        )
        return Response(queries.RunPage(results=results, next=cursor))


class RunView(ApiView):
    @extend_schema(operation_id="run_read", tags=["runs"], responses={200: RunBody, **READS})
    def get(self, request: Request, run_id: UUID) -> Response:
        """One run."""
        runs_settle_in_passing(user_id=request.user.pk)
        return Response(run_body(access.run_get(user_id=request.user.pk, run_id=run_id)))


class RunEventsView(ApiView):
    @extend_schema(
        operation_id="run_events",
        tags=["runs"],
        parameters=[*queries.query_parameters(queries.EventsQuery), LAST_EVENT_ID],
        responses={**EVENTS, **READS},
    )
    def get(self, request: Request, run_id: UUID) -> HttpResponseBase:
        """The run's events after a seq, then live, until `close`. `data` of each is one `RunEvent` or `ServerFrame`."""
        query = parse_query(queries.EventsQuery, request)
        access.run_get(user_id=request.user.pk, run_id=run_id)
        last = request.headers.get("Last-Event-ID")
        after = query.after if last is None else _event_id(last)
        return streams.event_stream(user_id=request.user.pk, run_id=run_id, after=after, epoch=query.epoch)


class RunStopView(ApiView):
    @extend_schema(
        operation_id="run_stop",
        tags=["runs"],
        request=None,
        responses={200: RunBody, **READS, **problems(403)},
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        """Ask a run to stop; what was said so far is kept. A run that has ended answers its final state."""
        return Response(run_cancel(user_id=request.user.pk, run_id=run_id))


class RunSteersView(ApiView):
    @extend_schema(operation_id="run_steers", tags=["runs"], responses={200: queries.SteerList, **READS})
    def get(self, request: Request, run_id: UUID) -> Response:
        """The messages that wait for a run, in the order in which they were sent."""
        return Response(queries.SteerList(results=steers_waiting(user_id=request.user.pk, run_id=run_id)))

    @extend_schema(
        operation_id="run_steer",
        tags=["runs"],
        parameters=[KEY_HEADER],
        request=SteerIn,
        responses={201: SteerBody, 200: SteerBody, **WRITES, **problems(409, 422, 429)},
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        """Send a message to a run that is at work: it is taken in before the model's next request, or is the next turn.

        409 `run_ended` when the run is over: send the message as a turn. A repeated key answers 200 with the first one.
        """
        access.run_get(user_id=request.user.pk, run_id=run_id)
        body = _keyed_body(SteerIn, request)
        accepted = turn_steer(
            user_id=request.user.pk, run_id=run_id, content=body.content, client_key=body.client_key
        )
        return Response(accepted.steer, status=201 if accepted.created else 200)


class SteerView(ApiView):
    @extend_schema(
        operation_id="steer_withdraw",
        tags=["runs"],
        responses={204: None, **READS, **problems(403, 409)},
    )
    def delete(self, request: Request, steer_id: UUID) -> Response:
        """Take back a message that still waits; 409 when its run has begun to take it in."""
        steer, gone = steer_withdraw(user_id=request.user.pk, steer_id=steer_id)
        if not gone:
            raise Conflict("The message is being taken in already", status=steer.status)
        return Response(status=204)


class UsageView(ApiView):
    @extend_schema(
        operation_id="usage_report",
        tags=["usage"],
        parameters=queries.query_parameters(queries.UsageQuery),
        responses={200: UsageReportBody, **READS},
    )
    def get(self, request: Request) -> Response:
        """What your model calls used and cost, by day, model and purpose."""
        query = parse_query(queries.UsageQuery, request)
        return Response(
            usage_report(user_id=request.user.pk, days=query.days, conversation_id=query.conversation)
        )


def _keyed_body(model: type[Keyed], request: Request) -> Keyed:
    """The body with its key from the body or the header. Raises ``InvalidInput``, also when both differ."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return parse_body(model, request)
    given = request.data.get("client_key") if isinstance(request.data, dict) else None
    if given not in (None, key):
        raise InvalidInput(errors={"client_key": ["differs from the Idempotency-Key header"]})
    return parse_body(model, request, client_key=key)


def _event_id(text: str) -> int:
    """The seq in a ``Last-Event-ID`` header. Raises ``InvalidInput``."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > 2_147_483_647:
        raise InvalidInput(errors={"Last-Event-ID": ["must be the id of an event, a number"]})
    return int(text)
