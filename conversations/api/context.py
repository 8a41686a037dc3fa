"""The REST door to what the model sees: in a run that was sent, and in the next turn before it is."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from agentx.problems import problems
from agentx.rest import ApiView, parse_body, parse_query
from agentx.wire import Wire
from conversations.api.queries import query_parameters
from conversations.selectors import access
from conversations.selectors.explain import run_context
from conversations.services.preview import context_preview
from conversations.wire_context import ContextDraftIn, ContextPreviewBody, DraftInAddress, RunContextBody

FirstSeq = Annotated[int, Field(ge=1, le=2_147_483_647)]


class FatesQuery(Wire):
    """``from_seq`` and ``through_seq`` limit the fates, of which one answer has at most those of 2,000 messages.

    ``request``: with the whole request.
    """

    from_seq: FirstSeq | None = None
    through_seq: FirstSeq | None = None
    request: bool = False


class PreviewQuery(FatesQuery):
    """``message``: what the next turn would send. A longer one goes into the body of a POST."""

    message: DraftInAddress = ""


class RunContextView(ApiView):
    @extend_schema(
        operation_id="run_context",
        tags=["context"],
        parameters=query_parameters(FatesQuery),
        responses={200: RunContextBody, **problems(400, 401, 404, 409, 503)},
    )
    def get(self, request: Request, run_id: UUID) -> Response:
        """What the model saw in a run that has ended. 409 while it has not, 404 when nothing was sent in it.

        With `request=true` the request is made again from what is stored and compared with what was sent.
        """
        query = parse_query(FatesQuery, request)
        run = access.run_get(user_id=request.user.pk, run_id=run_id)
        return Response(
            run_context(
                run=run, from_seq=query.from_seq, through_seq=query.through_seq, request=query.request
            )
        )


class ContextPreviewView(ApiView):
    @extend_schema(
        operation_id="context_preview",
        tags=["context"],
        parameters=query_parameters(PreviewQuery),
        responses={200: ContextPreviewBody, **problems(400, 401, 404, 503)},
    )
    def get(self, request: Request, conversation_id: UUID) -> Response:
        """What the model would see in the next turn. Nothing is stored and nothing is sent."""
        query = parse_query(PreviewQuery, request)
        return self._preview(request, conversation_id, query, query.message)

    @extend_schema(
        operation_id="context_preview_draft",
        tags=["context"],
        parameters=query_parameters(FatesQuery),
        request=ContextDraftIn,
        responses={200: ContextPreviewBody, **problems(400, 401, 403, 404, 413, 415, 503)},
    )
    def post(self, request: Request, conversation_id: UUID) -> Response:
        """The same for a message that is too long for an address. Stores nothing either."""
        query = parse_query(FatesQuery, request)
        access.conversation_get(user_id=request.user.pk, conversation_id=conversation_id)
        return self._preview(request, conversation_id, query, parse_body(ContextDraftIn, request).message)

    def _preview(self, request: Request, conversation_id: UUID, query: FatesQuery, message: str) -> Response:
        return Response(
            context_preview(
                user_id=request.user.pk,
                conversation_id=conversation_id,
                message=message,
                from_seq=query.from_seq,
                through_seq=query.through_seq,
                request=query.request,
            )
        )
