"""The REST door of accounts: signing in and out, and personal tokens."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth import login, logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.middleware.csrf import get_token
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from agentx.accounts import selectors, services
from agentx.accounts.authentication import SessionAuthentication
from agentx.accounts.wire import (
    SessionBody,
    SignInIn,
    TokenBody,
    TokenCreatedBody,
    TokenIn,
    TokenListBody,
)
from agentx.errors import NotFound
from agentx.problems import problems
from agentx.rest import ApiView, parse_body

BACKEND = "django.contrib.auth.backends.ModelBackend"


class SessionView(ApiView):
    permission_classes: ClassVar = [AllowAny]

    @extend_schema(
        operation_id="session_read", tags=["auth"], responses={200: SessionBody, **problems(400, 401)}
    )
    def get(self, request: Request) -> Response:
        """Who is signed in. Also sets the CSRF cookie that later requests need."""
        get_token(request._request)
        user = request.user
        return Response(SessionBody(user=selectors.user_body(user) if user.is_authenticated else None))


class SignInView(ApiView):
    authentication_classes: ClassVar = []
    permission_classes: ClassVar = [AllowAny]

    @extend_schema(
        operation_id="sign_in",
        tags=["auth"],
        auth=[],
        request=SignInIn,
        responses={200: SessionBody, **problems(400, 403, 413, 415, 429, 503)},
    )
    def post(self, request: Request) -> Response:
        """Start a session. After five failures within a minute the answer is 429 with ``Retry-After``."""
        SessionAuthentication().enforce_csrf(
            request
        )  # else a foreign page could sign people in as somebody else
        body = parse_body(SignInIn, request)
        user = services.sign_in_check(
            request=request._request,
            username=body.username,
            password=body.password,
            # The peer as the server saw it: X-Forwarded-For can be written by anybody.
            address=request.META.get("REMOTE_ADDR", ""),
        )
        login(request._request, user, backend=BACKEND)
        return Response(SessionBody(user=selectors.user_body(user)))


class SignOutView(ApiView):
    permission_classes: ClassVar = [AllowAny]

    @extend_schema(
        operation_id="sign_out", tags=["auth"], request=None, responses={204: None, **problems(400, 401, 403)}
    )
    def post(self, request: Request) -> Response:
        """End the session. Without one there is nothing to end, and the answer is the same."""
        logout(request._request)
        return Response(status=204)


class TokensView(ApiView):
    @extend_schema(
        operation_id="tokens_list", tags=["auth"], responses={200: TokenListBody, **problems(400, 401, 503)}
    )
    def get(self, request: Request) -> Response:
        """Your tokens, newest first, without their secrets."""
        rows = selectors.tokens_of(user_id=request.user.pk)[: services.MOST_TOKENS]
        return Response(TokenListBody(results=[selectors.token_body(row) for row in rows]))

    @extend_schema(
        operation_id="token_create",
        tags=["auth"],
        request=TokenIn,
        responses={201: TokenCreatedBody, **problems(400, 401, 403, 409, 413, 415, 503)},
    )
    def post(self, request: Request) -> Response:
        """Make a token. Its secret is in this answer and nowhere else."""
        body = parse_body(TokenIn, request)
        row, secret = services.token_create(
            user_id=request.user.pk, name=body.name, scope=body.scope, expires_in_days=body.expires_in_days
        )
        shown: TokenBody = selectors.token_body(row)
        return Response(TokenCreatedBody(**shown.model_dump(), secret=secret), status=201)


class TokenView(ApiView):
    @extend_schema(
        operation_id="token_revoke",
        tags=["auth"],
        responses={204: None, **problems(400, 401, 403, 404, 503)},
    )
    def delete(self, request: Request, token_id: int) -> Response:
        """Revoke a token; requests with it fail from now on."""
        services.token_revoke(user_id=request.user.pk, token_id=token_id)
        return Response(status=204)


@require_GET
@never_cache
def use_link(request: HttpRequest, token: str) -> HttpResponse:
    """Sign in with a one-time link."""
    try:
        user = services.link_use(secret=token)
    except NotFound:
        return HttpResponseRedirect("/sign-in?link=expired")
    login(request, user, backend=BACKEND)  # gives the session a new key
    return HttpResponseRedirect("/")


urlpatterns = [
    path("auth/session", SessionView.as_view()),
    path("auth/sign-in", SignInView.as_view()),
    path("auth/sign-out", SignOutView.as_view()),
    path("tokens", TokensView.as_view()),
    path("tokens/<int:token_id>", TokenView.as_view()),
]
