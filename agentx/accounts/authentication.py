"""Who is asking: a session cookie with its CSRF token, or a bearer token. Never anything in the address.

Addresses end up in logs, histories and ``Referer`` headers, so a token found in a query string is refused even if it
would be valid.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY, get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from django.http.cookie import parse_cookie
from rest_framework import authentication, permissions
from rest_framework.request import Request

from agentx.accounts import selectors
from agentx.accounts.models import ApiToken, User
from agentx.accounts.services import LAST_USED_STEP, TOKEN_PREFIX, digest_secret, token_touch
from agentx.errors import NotAuthenticated

_SECRET = re.compile(rf"{TOKEN_PREFIX}[A-Za-z0-9_-]{{43}}")


class TokenAuthentication(authentication.BaseAuthentication):
    """``Authorization: Bearer agx_…``. First in the list, so that anonymous requests get 401 and not 403."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """Raises ``NotAuthenticated`` for tokens that are wrong, expired, revoked or in the wrong place."""
        if any(_SECRET.search(value) for values in request.query_params.lists() for value in values[1]):
            raise NotAuthenticated(
                "Send the token in the Authorization header, not in the address; revoke this one"
            )
        header = request.META.get("HTTP_AUTHORIZATION", "")
        if not header:
            return None
        token = token_from_header(header)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return 'Bearer realm="api"'


def token_from_header(header: str) -> ApiToken:
    """The usable token that an ``Authorization`` header names, marked as used. Raises ``NotAuthenticated``."""
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not _SECRET.fullmatch(secret.strip()):
        raise NotAuthenticated("The Authorization header must be: Bearer agx_…")
    token = selectors.token_by_digest(digest=digest_secret(secret.strip()))
    if token is None:
        raise NotAuthenticated("This token is unknown, expired or revoked")
    if token.last_used_at is None or datetime.now(UTC) - token.last_used_at > LAST_USED_STEP:
        token_touch(token_id=token.pk)
    return token


class SessionAuthentication(authentication.SessionAuthentication):
    """Django's session. A signed-in request that changes something needs the CSRF token, else 403."""


class IsSignedInWithScope(permissions.BasePermission):
    """Somebody is signed in; a token of scope ``read`` may only look."""

    message = "This token may only read"

    def has_permission(self, request: Request, view: Any) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not request.user or not request.user.is_authenticated:
            raise NotAuthenticated
        token = request.auth
        if isinstance(token, ApiToken) and request.method not in permissions.SAFE_METHODS:
            return token.scope == ApiToken.Scope.WRITE
        return True


def user_id_from_scope(scope: dict[str, Any]) -> int | None:
    """The id of the user behind a WebSocket handshake, or None. Reads the database, so call it in a database thread.

    A read-only token does not open a socket, since sockets send messages.
    """
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope.get("headers", [])
    }
    if "authorization" in headers:
        try:
            token = token_from_header(headers["authorization"])
        except NotAuthenticated:
            return None
        return token.user_id if token.scope == ApiToken.Scope.WRITE else None
    session_key = parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME)
    if not session_key:
        return None
    request = HttpRequest()
    request.session = SessionStore(session_key)
    if SESSION_KEY not in request.session:
        return None
    user = get_user(
        request
    )  # also compares the session's hash with the password's, so that a new password ends it
    return user.pk if user.is_authenticated and user.is_active else None
