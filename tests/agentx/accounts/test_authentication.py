"""Who may do what with which credential."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.utils import timezone

from agentx.accounts.authentication import user_id_from_scope
from agentx.accounts.models import ApiToken
from agentx.accounts.services import token_create

pytestmark = pytest.mark.django_db
JSON = "application/json"


def _bearer(secret: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {secret}"})


def test_anonymous_is_401_and_not_403():
    response = Client().get("/api/conversations")

    assert response.status_code == 401
    assert response["WWW-Authenticate"] == 'Bearer realm="api"'
    assert json.loads(response.content)["code"] == "not_authenticated"


def test_a_token_signs_in_and_its_use_is_noted(user):
    row, secret = token_create(user_id=user.pk, name="script")

    assert _bearer(secret).get("/api/conversations").status_code == 200

    row.refresh_from_db()
    assert row.last_used_at is not None


def test_a_read_token_looks_but_does_not_touch(user):
    client = _bearer(token_create(user_id=user.pk, name="script", scope="read")[1])

    assert client.get("/api/conversations").status_code == 200
    refused = client.post("/api/conversations", {}, content_type=JSON)

    assert refused.status_code == 403
    assert json.loads(refused.content)["detail"] == "This token may only read"
    assert user.conversations.count() == 0


def test_b56_a_token_in_the_query_string_is_401_even_if_it_is_good(user):
    _, secret = token_create(user_id=user.pk, name="script")

    for client in (Client(), _bearer(secret)):
        response = client.get(f"/api/conversations?token={secret}")
        assert response.status_code == 401
        assert secret not in response.content.decode()


@pytest.mark.parametrize("field", ["expires_at", "revoked_at"])
def test_b57_an_expired_or_revoked_token_is_401(user, field):
    row, secret = token_create(user_id=user.pk, name="script")
    ApiToken.objects.filter(pk=row.pk).update(**{field: timezone.now()})

    assert _bearer(secret).get("/api/conversations").status_code == 401


def test_a_token_of_a_user_who_was_switched_off_is_401(user):
    _, secret = token_create(user_id=user.pk, name="script")
    user.is_active = False
    user.save()

    assert _bearer(secret).get("/api/conversations").status_code == 401


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer agx_short", "Token x", "Basic dTpw", "Bearer agx_" + "é" * 43, " "]
)
def test_a_strange_authorization_header_is_401(header):
    assert Client(headers={"Authorization": header}).get("/api/conversations").status_code == 401


def test_b55_a_cookie_post_without_the_csrf_token_is_403(user):
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)

    refused = client.post("/api/conversations", {}, content_type=JSON)

    assert refused.status_code == 403
    assert refused["Content-Type"] == "application/problem+json"
    assert user.conversations.count() == 0


def test_b55_with_the_token_from_the_session_endpoint_it_works(user):
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    client.get("/api/auth/session")

    made = client.post(
        "/api/conversations",
        {},
        content_type=JSON,
        headers={"X-CSRFToken": client.cookies["csrftoken"].value},
    )

    assert made.status_code == 201


def test_an_anonymous_cookie_post_is_401_and_not_403():
    refused = Client(enforce_csrf_checks=True).post("/api/conversations", {}, content_type=JSON)

    assert refused.status_code == 401


# ---- the handshake of a socket --------------------------------------------------------------------------------------


def _scope(**headers: str) -> dict:
    return {"headers": [(name.encode(), value.encode()) for name, value in headers.items()]}


def test_a_handshake_knows_the_user_by_session(user):
    client = Client()
    client.force_login(user)

    cookie = f"theme=dark; sessionid={client.cookies['sessionid'].value}"

    assert user_id_from_scope(_scope(cookie=cookie)) == user.pk


def test_a_handshake_knows_the_user_by_token(user):
    _, secret = token_create(user_id=user.pk, name="script")

    assert user_id_from_scope(_scope(authorization=f"Bearer {secret}")) == user.pk


def test_a_read_token_opens_no_socket(user):
    _, secret = token_create(user_id=user.pk, name="script", scope="read")

    assert user_id_from_scope(_scope(authorization=f"Bearer {secret}")) is None


@pytest.mark.parametrize(
    "headers", [{}, {"cookie": "sessionid=unknown"}, {"cookie": "sessionid="}, {"authorization": "Bearer no"}]
)
def test_b66_any_other_handshake_is_nobody(headers):
    assert user_id_from_scope(_scope(**headers)) is None


def test_b73_a_session_ended_elsewhere_is_nobody(user):
    client = Client()
    client.force_login(user)
    cookie = f"sessionid={client.cookies['sessionid'].value}"

    user.set_password("another one")
    user.save()

    assert user_id_from_scope(_scope(cookie=cookie)) is None
