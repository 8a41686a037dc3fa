"""Signing in over HTTP, one-time links, and the token endpoints."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from agentx.accounts.services import link_create
from agentx.redis_client import redis_client

pytestmark = pytest.mark.django_db
JSON = "application/json"


@pytest.fixture(autouse=True)
def _no_counts():
    redis_client().flushdb()


def _sign_in(client: Client, username: str, password: str = "correct horse", **headers: str):
    body = {"username": username, "password": password}
    return client.post("/api/auth/sign-in", body, content_type=JSON, headers=headers)


def test_sign_in_gives_the_user_and_a_session(user):
    client = Client()

    response = _sign_in(client, user.username)

    shown = {"user": {"id": user.pk, "username": user.username, "display_name": user.username}}
    assert (response.status_code, json.loads(response.content)) == (200, shown)
    assert json.loads(client.get("/api/auth/session").content) == shown


def test_wrong_credentials_are_a_400_without_a_session(user):
    client = Client()

    response = _sign_in(client, user.username, "wrong")

    assert response.status_code == 400
    assert json.loads(response.content)["code"] == "invalid_credentials"
    assert "sessionid" not in client.cookies


def test_sign_in_needs_the_csrf_token(user):
    client = Client(enforce_csrf_checks=True)

    assert _sign_in(client, user.username).status_code == 403

    client.get("/api/auth/session")
    assert (
        _sign_in(client, user.username, **{"X-CSRFToken": client.cookies["csrftoken"].value}).status_code
        == 200
    )


def test_b58_the_sixth_failure_is_429_with_retry_after(user):
    statuses = [_sign_in(Client(), user.username, "wrong").status_code for _ in range(5)]

    sixth = _sign_in(Client(), user.username, "wrong")

    assert statuses == [400] * 5
    assert sixth.status_code == 429
    assert 1 <= int(sixth["Retry-After"]) <= 60
    assert json.loads(sixth.content)["retryable"] is True


def test_b61_a_spoofed_forwarded_address_does_not_start_a_new_count(user):
    for number in range(5):
        _sign_in(Client(), user.username, "wrong", **{"X-Forwarded-For": f"198.51.100.{number}"})

    sixth = _sign_in(Client(), user.username, "wrong", **{"X-Forwarded-For": "198.51.100.99"})

    assert sixth.status_code == 429


def test_sign_out_ends_the_session(user):
    client = Client()
    client.force_login(user)

    assert client.post("/api/auth/sign-out").status_code == 204
    assert json.loads(client.get("/api/auth/session").content) == {"user": None}
    assert client.post("/api/auth/sign-out").status_code == 204


def test_a_link_signs_in_under_a_new_session_key_and_goes_home(user):
    client = Client()
    client.session.save()
    before = client.cookies["sessionid"].value if "sessionid" in client.cookies else None

    response = client.get(f"/sign-in/{link_create(user_id=user.pk)}/")

    assert (response.status_code, response["Location"]) == (302, "/")
    assert client.cookies["sessionid"].value != before
    assert json.loads(client.get("/api/auth/session").content)["user"]["id"] == user.pk


def test_a_used_or_unknown_link_goes_to_the_sign_in_page(user):
    secret = link_create(user_id=user.pk)
    Client().get(f"/sign-in/{secret}/")

    for token in (secret, "unknown"):
        client = Client()
        response = client.get(f"/sign-in/{token}/")
        assert (response.status_code, response["Location"]) == (302, "/sign-in?link=expired")
        assert "sessionid" not in client.cookies


def test_a_token_is_shown_with_its_secret_once(user):
    client = Client()
    client.force_login(user)

    made = client.post("/api/tokens", {"name": "script", "scope": "read"}, content_type=JSON)

    body = json.loads(made.content)
    listed = json.loads(client.get("/api/tokens").content)
    assert made.status_code == 201
    secret = body.pop("secret")
    assert (body["name"], body["scope"], body["prefix"], body["last_used_at"]) == (
        "script",
        "read",
        secret[:12],
        None,
    )
    assert listed == {"results": [body]}


def test_a_revoked_token_is_gone_from_the_list_and_does_not_work(user):
    client = Client()
    client.force_login(user)
    made = json.loads(client.post("/api/tokens", {"name": "script"}, content_type=JSON).content)

    assert client.delete(f"/api/tokens/{made['id']}").status_code == 204

    assert json.loads(client.get("/api/tokens").content) == {"results": []}
    bearer = Client(headers={"Authorization": f"Bearer {made['secret']}"})
    assert bearer.get("/api/conversations").status_code == 401
    assert client.delete(f"/api/tokens/{made['id']}").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x", "scope": "admin"},
        {"name": "x" * 121},
        {"name": "x", "expires_in_days": 0},
    ],
)
def test_a_bad_token_request_is_a_400(user, body):
    client = Client()
    client.force_login(user)

    assert client.post("/api/tokens", body, content_type=JSON).status_code == 400
    assert user.api_tokens.count() == 0
