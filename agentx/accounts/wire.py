"""The shapes that signing in and managing tokens put on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from agentx.wire import StorableText, VisibleText, Wire

TokenScope = Literal["read", "write"]


class UserBody(Wire):
    """A person as they appear to themselves."""

    id: int
    username: str
    display_name: str


class SessionBody(Wire):
    """Who is signed in; ``user`` is null when nobody is."""

    user: UserBody | None


class SignInIn(Wire):
    """150 is the length of a username; 1,000 keeps the cost of hashing a guess bounded."""

    username: Annotated[StorableText, Field(min_length=1, max_length=150)]
    password: Annotated[StorableText, Field(min_length=1, max_length=1000)]


class TokenIn(Wire):
    """``expires_in_days``: null for a token that lasts until it is revoked."""

    name: Annotated[VisibleText, Field(max_length=120)]
    scope: TokenScope = "write"
    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = None


class TokenBody(Wire):
    """A token as lists show it: ``prefix`` tells tokens apart, the secret is not kept."""

    id: int
    name: str
    scope: TokenScope
    prefix: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None


class TokenCreatedBody(TokenBody):
    """A new token with its secret, which is shown this once."""

    secret: str


class TokenListBody(Wire):
    results: list[TokenBody]
