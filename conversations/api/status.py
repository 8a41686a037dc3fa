"""Liveness, readiness and the state of every part, for probes and for the banner of the page."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings

from agentx import __version__
from agentx.errors import NotAuthenticated, Unavailable
from agentx.problems import problems, translate_exception
from agentx.rest import ApiView
from agentx.wire import Wire
from conversations.selectors import health


class HealthBody(Wire):
    status: str


class ComponentBody(Wire):
    """``detail`` is null for those who are not signed in."""

    ok: bool
    detail: str | None


class StatusBody(Wire):
    """``ok`` is true when every component is."""

    ok: bool
    components: dict[str, ComponentBody]
    version: str | None


class HealthView(ApiView):
    authentication_classes: ClassVar = []
    permission_classes: ClassVar = [AllowAny]

    @extend_schema(operation_id="health_read", tags=["status"], auth=[], responses={200: HealthBody})
    def get(self, request: Request) -> Response:
        """The process answers. Asks nothing else, so that a database that is away does not restart web processes."""
        return Response(HealthBody(status="ok"))


class ReadyView(ApiView):
    authentication_classes: ClassVar = []
    permission_classes: ClassVar = [AllowAny]

    @extend_schema(
        operation_id="ready_read", tags=["status"], auth=[], responses={200: StatusBody, 503: StatusBody}
    )
    def get(self, request: Request) -> Response:
        """Whether requests may be sent here: 200 or 503, with the parts."""
        body = _status_body(health.readiness_read(), details=True)
        return Response(body, status=200 if body.ok else 503)


class StatusView(ApiView):
    # Who asks is looked up in the view: while the database is away nobody could be, and that is when it is asked.
    authentication_classes: ClassVar = []
    permission_classes: ClassVar = [AllowAny]

    def perform_authentication(self, request: Request) -> None:
        """Not before the view: without authenticators it would put an anonymous user in the session's place."""

    @extend_schema(
        operation_id="status_read", tags=["status"], responses={200: StatusBody, **problems(400, 401)}
    )
    def get(self, request: Request) -> Response:
        """The state of every part. Without details while it cannot be known who is asking."""
        found = health.status_read()
        if not found["database"].ok:
            return Response(_status_body(found, details=False))
        try:
            _require_signed_in(request)
        except Unavailable:
            return Response(_status_body(found, details=False))
        return Response(_status_body(found, details=True))


def _require_signed_in(request: Request) -> None:
    """Raises ``NotAuthenticated``, and ``Unavailable`` when the database went away meanwhile."""
    try:
        for authenticator in api_settings.DEFAULT_AUTHENTICATION_CLASSES or ():
            if authenticator().authenticate(request) is not None:
                return
    except Exception as error:
        raise translate_exception(error) from None
    raise NotAuthenticated


def _status_body(found: dict[str, health.Component], *, details: bool) -> StatusBody:
    return StatusBody(
        ok=all(component.ok for component in found.values()),
        components={
            name: ComponentBody(ok=component.ok, detail=component.detail if details else None)
            for name, component in found.items()
        },
        version=__version__ if details else None,
    )
