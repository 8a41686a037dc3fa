"""Signing in, one-time links and API tokens.

Secrets are random (256 bits), shown once and stored as digests. Guessing passwords is limited per name and address; when
the counter is away nobody signs in, since unlimited guessing would be worse.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import Any

import redis.exceptions
import structlog
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils import timezone

from agentx.accounts import selectors
from agentx.accounts.models import ApiToken, SignInLink, User
from agentx.accounts.wire import TokenScope
from agentx.errors import Conflict, InvalidCredentials, NotFound, TooMany, Unavailable
from agentx.redis_client import redis_client

log = structlog.get_logger(__name__)

TOKEN_PREFIX = "agx_"
SIGN_IN_FAILURES = 5
SIGN_IN_WINDOW_SECONDS = 60
MOST_TOKENS = 100
# A token is used with every request of a script; writing a row each time would make reads into writes.
LAST_USED_STEP = timedelta(minutes=1)


def digest_secret(secret: str) -> str:
    """What is stored of a secret. Secrets carry 256 random bits, so a plain hash needs no salt."""
    return hashlib.sha256(secret.encode()).hexdigest()


def user_create(
    *, username: str, password: str | None = None, superuser: bool = False, display_name: str = ""
) -> User:
    """A new user; without a password only links and tokens sign them in."""
    make = User.objects.create_superuser if superuser else User.objects.create_user
    return make(username=username, email="", password=password, display_name=display_name)


def owner_ensure() -> User:
    """The user a fresh installation starts with: the superuser ``owner`` when there is nobody at all.

    Raises ``NotFound`` when there are users but no active superuser.
    """
    with transaction.atomic():
        if not User.objects.exists():
            return user_create(username="owner", superuser=True)
    user = User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
    if user is None:
        raise NotFound("There are users but no active superuser; name one with --username")
    return user


# ---- passwords ------------------------------------------------------------------------------------------------------


def sign_in_check(*, request: HttpRequest, username: str, password: str, address: str) -> User:
    """The user whose password this is.

    Raises ``InvalidCredentials``; ``TooMany`` from the sixth attempt within a minute of the first failure, right or
    wrong; ``Unavailable`` when attempts cannot be counted.
    """
    key = _attempts_key(username=username, address=address)
    _attempt_count(key)
    user = authenticate(request, username=username, password=password)
    if user is None:
        log.info("sign_in_failed", address=address)
        raise InvalidCredentials
    _attempts_forget(key)
    return user  # type: ignore[return-value]


def _attempts_key(*, username: str, address: str) -> str:
    return f"agentx:sign-in:{digest_secret(f'{username.strip().lower()}|{address}')}"


def _attempt_count(key: str) -> None:
    """Count before checking, so that attempts made at the same moment cannot share one count."""
    try:
        pipe = redis_client().pipeline(transaction=True)
        pipe.incr(key)
        pipe.expire(key, SIGN_IN_WINDOW_SECONDS, nx=True)
        pipe.ttl(key)
        attempts, _, seconds = pipe.execute()
    except (redis.exceptions.RedisError, OSError) as error:
        log.warning("sign_in_not_counted", error=type(error).__name__)
        raise Unavailable("Signing in is not possible at the moment; try again shortly") from None
    if attempts > SIGN_IN_FAILURES:
        raise TooMany("Too many attempts to sign in; wait a minute", retry_after=max(1, int(seconds)))


def _attempts_forget(key: str) -> None:
    try:
        redis_client().delete(key)
    except (redis.exceptions.RedisError, OSError):
        log.warning("sign_in_count_kept")


# ---- one-time links -------------------------------------------------------------------------------------------------


def link_create(*, user_id: int, hours: int | None = None) -> str:
    """A new link's secret, which is good once and for ``hours`` (default: ``SIGN_IN_LINK_HOURS``)."""
    secret = secrets.token_urlsafe(32)
    lifetime = timedelta(hours=settings.SIGN_IN_LINK_HOURS if hours is None else hours)
    SignInLink.objects.create(
        user_id=user_id, digest=digest_secret(secret), expires_at=timezone.now() + lifetime
    )
    return secret


def link_use(*, secret: str) -> User:
    """Spend a link. Of two that use it at once, one succeeds. Raises ``NotFound`` for unknown, used and expired ones."""
    usable = SignInLink.objects.filter(
        digest=digest_secret(secret), used_at=None, expires_at__gt=Now(), user__is_active=True
    )
    with transaction.atomic():
        # Locked, not updated in one go: with the user's table in it, an update would not look at the row again after
        # waiting for another one, and both would succeed.
        link = usable.select_for_update(of=("self",)).select_related("user").first()
        if link is None:
            raise NotFound("This link has expired or was used before")
        SignInLink.objects.filter(pk=link.pk).update(used_at=Now())
    return link.user


# ---- tokens ---------------------------------------------------------------------------------------------------------


def token_create(
    *, user_id: int, name: str, scope: TokenScope = "write", expires_in_days: int | None = None
) -> tuple[ApiToken, str]:
    """A new token and its secret, which is not kept. Raises ``Conflict`` at 100 tokens."""
    if selectors.tokens_of(user_id=user_id).count() >= MOST_TOKENS:
        raise Conflict(f"You have {MOST_TOKENS} tokens; revoke one first")
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    fields: dict[str, Any] = {}
    if expires_in_days is not None:
        fields["expires_at"] = timezone.now() + timedelta(days=expires_in_days)
    row = ApiToken.objects.create(
        user_id=user_id,
        name=name.strip(),
        scope=scope,
        prefix=secret[:12],
        digest=digest_secret(secret),
        **fields,
    )
    return row, secret


def token_revoke(*, user_id: int, token_id: int) -> None:
    """Make a token useless at once. Raises ``NotFound``."""
    if not selectors.tokens_of(user_id=user_id).filter(pk=token_id).update(revoked_at=Now()):
        raise NotFound("There is no such token")


def token_touch(*, token_id: int) -> None:
    """Note that a token was used; at most one write a minute."""
    stale = Q(last_used_at=None) | Q(last_used_at__lt=Now() - LAST_USED_STEP)
    ApiToken.objects.filter(stale, pk=token_id).update(last_used_at=Now())


def expired_clear() -> int:
    """Delete expired sessions and links that are spent or expired; returns how many rows went."""
    sessions, _ = Session.objects.filter(expire_date__lt=Now()).delete()
    links, _ = SignInLink.objects.filter(Q(used_at__isnull=False) | Q(expires_at__lt=Now())).delete()
    return sessions + links
