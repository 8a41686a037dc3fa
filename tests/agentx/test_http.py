"""Bad input at the HTTP ground: every refusal is a problem with a status below 500, and never a page."""

from __future__ import annotations

import json

import orjson
import pytest
from django.test import Client

from agentx.accounts.services import token_create
from conversations.models import Conversation

pytestmark = pytest.mark.django_db
JSON = "application/json"


@pytest.fixture
def client(user) -> Client:
    _, secret = token_create(user_id=user.pk, name="tests")
    return Client(headers={"Authorization": f"Bearer {secret}"})


def _problem(response) -> dict:
    assert response["Content-Type"] == "application/problem+json"
    body = json.loads(response.content)
    assert body["status"] == response.status_code
    assert body["request_id"] == response["X-Request-ID"]
    assert body["type"] == f"urn:agentx:error:{body['code']}"
    return body


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b'{"title": ', id="B37 malformed"),
        pytest.param(b'["title"]', id="B38 wrong top type"),
        pytest.param(b'"title"', id="B38 a string"),
        pytest.param(b'{"title": NaN}', id="B39 NaN"),
        pytest.param(b'{"title": ' + b"9" * 5000 + b"}", id="B40 5,000 digits"),
        pytest.param(b'{"title": "\xff\xfe"}', id="B41 bad UTF-8"),
        pytest.param(b'{"title": ' + b"[" * 5000 + b"]" * 5000 + b"}", id="B42 nested 5,000 deep"),
        pytest.param(b'{"title": ' + b"[" * 100 + b"]" * 100 + b"}", id="B42 nested 100 deep"),
        pytest.param(b'{"title": "a\\u0000b"}', id="B43 NUL in a value"),
        pytest.param(b'{"a\\u0000b": "x"}', id="B43 NUL in a key"),
        pytest.param(b'{"title": "\\ud800"}', id="B44 lone surrogate"),
        pytest.param(b'{"title": "  "}', id="B48 blank"),
        pytest.param(b'{"title": 7}', id="wrong type"),
        pytest.param(b'{"title": "x", "owner": 1}', id="unknown field"),
    ],
)
def test_a_bad_body_is_a_400_and_stores_nothing(client, raw):
    response = client.post("/api/conversations", raw, content_type=JSON)

    assert response.status_code == 400
    assert _problem(response)["code"] == "invalid_input"
    assert Conversation.objects.count() == 0


def test_b42_64_levels_are_still_read(client):
    nested = b"[" * 63 + b"]" * 63

    response = client.post("/api/conversations", b'{"title": ' + nested + b"}", content_type=JSON)

    assert list(_problem(response)["errors"]) == ["title"]  # refused for its type, not for its depth


def test_b42_65_levels_are_refused_before_the_fields_are_looked_at(client):
    nested = b"[" * 65 + b"]" * 65

    response = client.post("/api/conversations", b'{"title": ' + nested + b"}", content_type=JSON)

    assert "errors" not in _problem(response)
    assert _problem(response)["detail"] == "The body is nested more than 64 levels deep"


def test_b47_a_3_mb_body_is_413(client):
    response = client.post("/api/conversations", orjson.dumps({"title": "x" * 3_000_000}), content_type=JSON)

    assert response.status_code == 413
    assert _problem(response)["code"] == "too_large"


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", ""]
)
def test_b50_another_media_type_is_415(client, media_type):
    response = client.post("/api/conversations", b"title=x", content_type=media_type)

    assert response.status_code == 415
    assert _problem(response)["code"] == "unsupported_media_type"


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("search=%00", id="B45 NUL"),
        pytest.param("id=abc", id="B46 unknown filter"),
        pytest.param("limit=1000000000", id="B59 limit"),
        pytest.param("limit=-1", id="B59 negative"),
        pytest.param("limit=0", id="B59 zero"),
        pytest.param("limit=1&limit=2", id="repeated"),
        pytest.param("page=-1", id="B59 page"),
        pytest.param("cursor=abc", id="cursor of somebody's making"),
        pytest.param("cursor=%ff%fe", id="cursor in no encoding"),
    ],
)
def test_a_bad_query_string_is_a_400(client, query):
    response = client.get(f"/api/conversations?{query}")

    assert response.status_code == 400
    assert list(_problem(response)["errors"]) == [query.split("=")[0]]


def test_b46_a_filter_that_is_no_id_is_a_400(client):
    response = client.get("/api/runs?conversation=abc")

    assert response.status_code == 400
    assert list(_problem(response)["errors"]) == ["conversation"]


def test_b60_a_forged_host_is_a_400_as_a_problem(client):
    response = client.get("/api/health", headers={"Host": "evil.example"})

    assert response.status_code == 400
    assert _problem(response)["code"] == "invalid_request"


@pytest.mark.parametrize(
    "path", ["/api/nothing", "/api/", "/api/conversations/not-an-id", "/api/conversations/"]
)
def test_an_unknown_api_address_is_a_404_problem(client, path):
    response = client.get(path)

    assert response.status_code == 404
    assert _problem(response)["code"] == "not_found"


def test_an_unknown_page_is_a_small_html_page(client):
    response = client.get("/no/such/page")

    assert response.status_code == 404
    assert response["Content-Type"] == "text/html; charset=utf-8"
    assert b"There is no such thing here" in response.content


def test_another_method_is_a_405_that_names_the_right_ones(client):
    response = client.put("/api/conversations", b"{}", content_type=JSON)

    assert response.status_code == 405
    assert _problem(response)["code"] == "method_not_allowed"
    assert response["Allow"] == "GET, POST, HEAD, OPTIONS"


def test_a_sane_request_id_is_kept():
    response = Client().get("/api/health", headers={"X-Request-ID": "proxy-0123456789"})

    assert response["X-Request-ID"] == "proxy-0123456789"


@pytest.mark.parametrize("given", ["short", "with space in it", "x" * 101, 'quote"quote"', ""])
def test_any_other_request_id_is_replaced(given):
    response = Client().get("/api/health", headers={"X-Request-ID": given})

    assert len(response["X-Request-ID"]) == 32
    assert response["X-Request-ID"] != given


def test_accept_is_not_asked(client):
    response = client.get("/api/conversations", headers={"Accept": "text/event-stream"})

    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"


def test_the_page_carries_this_requests_nonce_and_the_csrf_cookie(settings, tmp_path):
    (tmp_path / "index.html").write_text('<meta name="csp-nonce" content="__CSP_NONCE__">')
    settings.FRONTEND_DIST = tmp_path

    response = Client().get("/c/0b0e6d0c-6d37-4f5c-9f0e-3f1f0d1b2a3c")

    nonce = response.content.decode().split('content="')[1].split('"')[0]
    assert f"'nonce-{nonce}'" in response["Content-Security-Policy"]
    assert response["Cache-Control"] == "no-cache"
    assert "csrftoken" in response.cookies


def test_without_a_build_the_page_says_what_to_do(settings, tmp_path):
    settings.FRONTEND_DIST = tmp_path

    response = Client().get("/")

    assert response.status_code == 503
    assert response.content == b"The web app has not been built yet: run `make`, then reload this page.\n"
