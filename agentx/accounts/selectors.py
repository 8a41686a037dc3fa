"""Reading people and their tokens. Tokens are reached through their owner only."""

from __future__ import annotations

from typing import Literal

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from agentx.accounts.models import ApiToken, User
from agentx.accounts.wire import TokenBody, UserBody
from agentx.errors import NotFound


def user_body(user: User) -> UserBody:
    """A person as they appear to themselves."""
    return UserBody(id=user.pk, username=user.get_username(), display_name=str(user))


def user_role(*, is_superuser: bool) -> Literal["user", "admin"]:
    """What may be done on a person's behalf: everything for a superuser."""
    return "admin" if is_superuser else "user"


def user_by_name(*, username: str) -> User:
    """The active user of that name. Raises ``NotFound``."""
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise NotFound(f"There is no active user {username!r}")
    return user


def tokens_of(*, user_id: int) -> QuerySet[ApiToken]:
    """The user's tokens that have not been revoked, newest first."""
    return ApiToken.objects.filter(user_id=user_id, revoked_at=None)


def token_body(row: ApiToken) -> TokenBody:
    """A token without anything that could be used."""
    return TokenBody(
        id=row.pk,
        name=row.name,
        scope="read" if row.scope == ApiToken.Scope.READ else "write",
        prefix=row.prefix,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        expires_at=row.expires_at,
    )


def token_by_digest(*, digest: str) -> ApiToken | None:
    """The usable token with that digest and its user: not revoked, not expired, of an active user."""
    rows = ApiToken.objects.select_related("user").filter(
        Q(expires_at=None) | Q(expires_at__gt=Now()), digest=digest, revoked_at=None, user__is_active=True
    )
    return rows.first()
