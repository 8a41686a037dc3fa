"""Sign-in counting, one-time links and tokens: what is stored, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone

from agentx.accounts import services
from agentx.accounts.models import ApiToken, SignInLink, User
from agentx.errors import Conflict, InvalidCredentials, NotFound, TooMany, Unavailable
from agentx.redis_client import redis_client

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_counts():
    redis_client().flushdb()


def _try(username: str, password: str, address: str = "192.0.2.1"):
    return services.sign_in_check(request=None, username=username, password=password, address=address)


def test_the_right_password_gives_the_user(user):
    assert _try(user.username, "correct horse") == user


@pytest.mark.parametrize("active", [True, False])
def test_wrong_password_and_inactive_user_look_the_same(make_user, active):
    user = make_user(is_active=active)

    with pytest.raises(InvalidCredentials) as refused:
        _try(user.username, "wrong" if active else "correct horse")

    assert refused.value.message == "Username or password is wrong"


def test_b58_the_sixth_attempt_is_refused_even_when_it_is_right(user):
    for _ in range(5):
        with pytest.raises(InvalidCredentials):
            _try(user.username, "wrong")

    with pytest.raises(TooMany) as refused:
        _try(user.username, "correct horse")

    assert 1 <= refused.value.retry_after <= 60


def test_b58_another_address_or_name_has_its_own_count(user, other_user):
    for _ in range(5):
        with pytest.raises(InvalidCredentials):
            _try(user.username.upper() + " ", "wrong")  # counted as the same name

    assert _try(user.username, "correct horse", address="192.0.2.2") == user
    assert _try(other_user.username, "correct horse") == other_user
    with pytest.raises(TooMany):
        _try(user.username, "correct horse")


def test_a_success_forgets_the_failures(user):
    for _ in range(2):
        for _ in range(4):
            with pytest.raises(InvalidCredentials):
                _try(user.username, "wrong")
        assert _try(user.username, "correct horse") == user


def test_p22_nobody_signs_in_while_attempts_cannot_be_counted(user, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    redis_client.cache_clear()
    try:
        with pytest.raises(Unavailable):
            _try(user.username, "correct horse")
    finally:
        redis_client.cache_clear()


def test_a_link_works_once(user):
    secret = services.link_create(user_id=user.pk)

    assert services.link_use(secret=secret) == user
    with pytest.raises(NotFound):
        services.link_use(secret=secret)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_use_a_link_at_once_one_gets_in(user):
    secrets = [services.link_create(user_id=user.pk) for _ in range(25)]

    def use(secret: str) -> bool:
        try:
            services.link_use(secret=secret)
        except NotFound:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(max_workers=4) as pool:
        results = [list(pool.map(use, [secret] * 4)) for secret in secrets]

    assert [result.count(True) for result in results] == [1] * 25


def test_an_expired_link_and_one_of_an_inactive_user_are_refused_and_stay_unused(make_user):
    expired = services.link_create(user_id=make_user().pk, hours=-1)
    inactive = services.link_create(user_id=make_user(is_active=False).pk)

    for secret in (expired, inactive, "unknown"):
        with pytest.raises(NotFound):
            services.link_use(secret=secret)

    assert list(SignInLink.objects.values_list("used_at", flat=True)) == [None, None]


def test_p18_secrets_are_stored_as_digests_only(user):
    row, secret = services.token_create(user_id=user.pk, name="script")
    link = services.link_create(user_id=user.pk)

    assert len(secret) == 47
    assert secret.startswith("agx_")
    stored = str(list(ApiToken.objects.values_list())) + str(list(SignInLink.objects.values_list()))
    assert secret not in stored
    assert link not in stored
    assert row.prefix == secret[:12]


def test_a_token_is_revoked_once_and_only_by_its_owner(user, other_user):
    row, _ = services.token_create(user_id=user.pk, name="script")

    with pytest.raises(NotFound):
        services.token_revoke(user_id=other_user.pk, token_id=row.pk)
    row.refresh_from_db()
    assert row.revoked_at is None

    services.token_revoke(user_id=user.pk, token_id=row.pk)
    with pytest.raises(NotFound):
        services.token_revoke(user_id=user.pk, token_id=row.pk)


def test_the_101st_token_is_refused_until_one_is_revoked(user):
    rows = [services.token_create(user_id=user.pk, name=f"t{number}")[0] for number in range(100)]

    with pytest.raises(Conflict):
        services.token_create(user_id=user.pk, name="one more")
    services.token_revoke(user_id=user.pk, token_id=rows[0].pk)

    assert services.token_create(user_id=user.pk, name="one more")[0].name == "one more"


def test_last_use_is_written_at_most_once_a_minute(user):
    row, _ = services.token_create(user_id=user.pk, name="script")
    recent = timezone.now() - timedelta(seconds=30)
    ApiToken.objects.filter(pk=row.pk).update(last_used_at=recent)

    services.token_touch(token_id=row.pk)
    row.refresh_from_db()
    assert row.last_used_at == recent

    ApiToken.objects.filter(pk=row.pk).update(last_used_at=recent - timedelta(minutes=1))
    services.token_touch(token_id=row.pk)
    row.refresh_from_db()
    assert row.last_used_at > recent


def test_the_owner_is_made_when_there_is_nobody_and_found_afterwards():
    made = services.owner_ensure()

    assert (made.username, made.is_superuser, made.has_usable_password()) == ("owner", True, False)
    assert services.owner_ensure() == made
    assert User.objects.count() == 1


def test_the_owner_is_not_made_beside_other_users(user):
    with pytest.raises(NotFound):
        services.owner_ensure()

    assert User.objects.count() == 1


def test_clearing_removes_what_is_expired_or_spent_and_nothing_else(user):
    services.link_create(user_id=user.pk, hours=-1)
    services.link_use(secret=services.link_create(user_id=user.pk))
    services.link_create(user_id=user.pk)
    for key, hours in (("old", -1), ("new", 1)):
        when = timezone.now() + timedelta(hours=hours)
        Session.objects.create(session_key=key, session_data="x", expire_date=when)

    assert services.expired_clear() == 3
    assert services.expired_clear() == 0
    assert SignInLink.objects.count() == 1
    assert list(Session.objects.values_list("session_key", flat=True)) == ["new"]
