"""Liveness, readiness and the state of every part, for probes and for the banner of the page."""

from __future__ import annotations

import hmac
from typing import ClassVar

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings

from agentx import __version__, metrics
from agentx.accounts.models import User
from agentx.errors import Forbidden, NotAuthenticated, Unavailable
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


class MetricsView(ApiView):
    # A scraper's token belongs to no user, so who asks is looked up in the view.
    authentication_classes: ClassVar = []
    permission_classes: ClassVar = [AllowAny]

    def perform_authentication(self, request: Request) -> None:
        """Not before the view, as above."""

    @extend_schema(
        operation_id="metrics_read",
        tags=["status"],
        responses={(200, "text/plain"): str, **problems(400, 401, 403, 503)},
    )
    def get(self, request: Request) -> HttpResponse:
        """Figures of all processes for Prometheus: for operators, or with the bearer token `METRICS_TOKEN`."""
        if not _has_metrics_token(request) and not _require_signed_in(request).is_staff:
            raise Forbidden("Metrics are for operators")
        return HttpResponse(metrics.metrics_render(), content_type=metrics.CONTENT_TYPE)


def _has_metrics_token(request: Request) -> bool:
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    wanted: str = settings.METRICS_TOKEN
    same = hmac.compare_digest(token.strip().encode(), wanted.encode())
    return bool(wanted) and scheme.lower() == "bearer" and same


def _require_signed_in(request: Request) -> User:
    """Who asks. Raises ``NotAuthenticated``, and ``Unavailable`` when the database went away meanwhile."""
    try:
        for authenticator in api_settings.DEFAULT_AUTHENTICATION_CLASSES or ():
            found = authenticator().authenticate(request)
            if found is not None:
                return found[0]
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
