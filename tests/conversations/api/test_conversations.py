"""Conversations, messages and runs over REST."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from conversations.models import Conversation, Message, Run
from conversations.services.cancel import run_cancel
from conversations.services.conversations import conversation_create
from conversations.services.submit import turn_submit

pytestmark = pytest.mark.django_db
JSON = "application/json"


def _json(response, status: int = 200):
    assert response.status_code == status, response.content
    return json.loads(response.content)


def _say(user, conversation_id, count: int) -> None:
    for number in range(count):
        accepted = turn_submit(
            user_id=user.pk, conversation_id=conversation_id, content=f"message {number + 1}"
        )
        run_cancel(user_id=user.pk, run_id=accepted.run.id)


def test_a_conversation_is_made_read_renamed_and_deleted(client):
    made = _json(client.post("/api/conversations", {}, content_type=JSON), 201)
    path = f"/api/conversations/{made['id']}"

    assert (made["title"], made["head"], made["active_run"]) == ("", 0, None)
    assert _json(client.get(path)) == made
    assert _json(client.patch(path, {"title": " Tea "}, content_type=JSON))["title"] == "Tea"
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    assert Conversation.objects.count() == 0


def test_a_patch_without_a_title_changes_nothing(client, user):
    conversation = conversation_create(user_id=user.pk, title="Tea")

    response = client.patch(f"/api/conversations/{conversation.id}", {}, content_type=JSON)

    assert _json(response, 400)["errors"] == {"title": ["Field required"]}
    assert Conversation.objects.get().title == "Tea"


def test_the_list_pages_through_newest_activity_first(client, user):
    ids = [str(conversation_create(user_id=user.pk, title=f"c{number}").id) for number in range(5)]
    _say(user, ids[0], 1)

    seen, cursor = [], ""
    while cursor is not None:
        page = _json(client.get("/api/conversations", {"limit": 2} | ({"cursor": cursor} if cursor else {})))
        seen += [row["id"] for row in page["results"]]
        cursor = page["next"]

    assert seen == [ids[0], ids[4], ids[3], ids[2], ids[1]]


def test_search_looks_into_titles(client, user):
    for title in ("Green tea", "Coffee", "TEAPOT"):
        conversation_create(user_id=user.pk, title=title)

    page = _json(client.get("/api/conversations?search=tea"))

    assert [row["title"] for row in page["results"]] == ["TEAPOT", "Green tea"]


def test_messages_page_backwards_from_the_newest(client, user):
    conversation = conversation_create(user_id=user.pk)
    _say(user, conversation.id, 5)
    path = f"/api/conversations/{conversation.id}/messages"

    newest = _json(client.get(path, {"limit": 2}))
    older = _json(client.get(path, {"limit": 2, "before": 4}))
    oldest = _json(client.get(path, {"limit": 2, "before": 2}))
    after = _json(client.get(path, {"limit": 2, "after": 2}))

    assert [row["seq"] for row in newest["results"]] == [4, 5]
    assert (newest["has_before"], newest["has_after"]) == (True, False)
    assert [row["seq"] for row in older["results"]] == [2, 3]
    assert (older["has_before"], older["has_after"]) == (True, True)
    assert [row["seq"] for row in oldest["results"]] == [1]
    assert (oldest["has_before"], oldest["has_after"]) == (False, True)
    assert [row["seq"] for row in after["results"]] == [3, 4]


@pytest.mark.parametrize(
    "query", ["before=1&after=1", "before=abc", "before=-1", "limit=201", "after=99999999999"]
)
def test_b59_a_bad_page_is_a_400(client, user, query):
    conversation = conversation_create(user_id=user.pk)

    assert client.get(f"/api/conversations/{conversation.id}/messages?{query}").status_code == 400


def test_a_send_is_202_with_run_and_message_and_shows_as_active(client, user):
    conversation = conversation_create(user_id=user.pk)
    path = f"/api/conversations/{conversation.id}"

    accepted = _json(client.post(f"{path}/turns", {"content": "What is 2 + 2?"}, content_type=JSON), 202)

    assert accepted["created"] is True
    assert (accepted["message"]["seq"], accepted["message"]["content"]) == (1, "What is 2 + 2?")
    assert accepted["run"]["status"] == "queued"
    shown = _json(client.get(path))
    assert (shown["head"], shown["title"], shown["active_run"]) == (1, "What is 2 + 2?", accepted["run"])
    assert _json(client.get(f"/api/runs/{accepted['run']['id']}")) == accepted["run"]


@pytest.mark.parametrize("how", ["body", "header", "both"])
def test_p1_a_repeated_key_is_200_with_the_first_run(client, user, how):
    conversation = conversation_create(user_id=user.pk)
    body = {"content": "hello"} | ({"client_key": "key-1"} if how != "header" else {})
    headers = {"Idempotency-Key": "key-1"} if how != "body" else {}

    def send():
        return client.post(
            f"/api/conversations/{conversation.id}/turns", body, content_type=JSON, headers=headers
        )

    first, again = _json(send(), 202), _json(send(), 200)

    assert (first["created"], again["created"]) == (True, False)
    assert again["run"] == first["run"]
    assert Run.objects.count() == 1


def test_two_different_keys_in_one_request_are_a_400(client, user):
    conversation = conversation_create(user_id=user.pk)

    response = client.post(
        f"/api/conversations/{conversation.id}/turns",
        {"content": "hello", "client_key": "a"},
        content_type=JSON,
        headers={"Idempotency-Key": "b"},
    )

    assert list(_json(response, 400)["errors"]) == ["client_key"]
    assert Message.objects.count() == 0


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_key_of_the_wrong_length_is_a_400(client, user, key):
    conversation = conversation_create(user_id=user.pk)
    path = f"/api/conversations/{conversation.id}/turns"

    response = client.post(path, {"content": "hello"}, content_type=JSON, headers={"Idempotency-Key": key})

    assert list(_json(response, 400)["errors"]) == ["client_key"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="no content"),
        pytest.param({"content": ""}, id="B48 empty"),
        pytest.param({"content": " \n\t "}, id="B48 whitespace"),
        pytest.param({"content": "a\x00b"}, id="B43 NUL"),
        pytest.param({"content": "x" * 1_000_001}, id="over a million characters"),
        pytest.param({"content": "x", "expected_head": -1}, id="negative head"),
        pytest.param({"content": "x", "expected_head": "1"}, id="head as text"),
        pytest.param({"content": "x", "role": "system"}, id="unknown field"),
    ],
)
def test_a_bad_turn_is_a_400_and_stores_nothing(client, user, body):
    conversation = conversation_create(user_id=user.pk)

    response = client.post(f"/api/conversations/{conversation.id}/turns", body, content_type=JSON)

    assert _json(response, 400)["code"] == "invalid_input"
    assert (Message.objects.count(), Run.objects.count()) == (0, 0)


def test_b52_a_send_during_a_run_is_409_with_its_id(client, user):
    conversation = conversation_create(user_id=user.pk)
    first = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello")

    response = client.post(
        f"/api/conversations/{conversation.id}/turns", {"content": "more"}, content_type=JSON
    )

    body = _json(response, 409)
    assert (body["code"], body["run_id"]) == ("run_active", str(first.run.id))


def test_c27_a_stale_head_is_409_with_the_newest(client, user):
    conversation = conversation_create(user_id=user.pk)
    _say(user, conversation.id, 2)

    response = client.post(
        f"/api/conversations/{conversation.id}/turns",
        {"content": "more", "expected_head": 1},
        content_type=JSON,
    )

    body = _json(response, 409)
    assert (body["code"], body["head"]) == ("head_moved", 2)


def test_b53_a_reused_key_with_another_body_is_422(client, user):
    conversation = conversation_create(user_id=user.pk)
    turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello", client_key="k")

    response = client.post(
        f"/api/conversations/{conversation.id}/turns",
        {"content": "other", "client_key": "k"},
        content_type=JSON,
    )

    assert _json(response, 422)["code"] == "key_reused"


def test_b49_a_message_beyond_the_window_is_422_with_figures(client, user, settings):
    settings.CONTEXT_WINDOW_TOKENS = 8192
    conversation = conversation_create(user_id=user.pk)

    response = client.post(
        f"/api/conversations/{conversation.id}/turns", {"content": "word " * 100_000}, content_type=JSON
    )

    body = _json(response, 422)
    assert body["code"] == "does_not_fit"
    assert body["needed"] > body["budget"]
    assert "send it in parts" in body["detail"]
    assert Message.objects.count() == 0


def test_p22_a_full_queue_is_429_with_retry_after(client, user, settings):
    settings.RUN_QUEUE_LIMIT = 1
    turn_submit(user_id=user.pk, conversation_id=conversation_create(user_id=user.pk).id, content="hello")
    conversation = conversation_create(user_id=user.pk)

    response = client.post(
        f"/api/conversations/{conversation.id}/turns", {"content": "more"}, content_type=JSON
    )

    assert _json(response, 429)["retryable"] is True
    assert response["Retry-After"] == "5"


def test_b54_stopping_twice_answers_the_final_state_twice(client, user):
    conversation = conversation_create(user_id=user.pk)
    run_id = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello").run.id

    first = _json(client.post(f"/api/runs/{run_id}/stop"))
    again = _json(client.post(f"/api/runs/{run_id}/stop"))

    assert first["status"] == again["status"] == "cancelled"
    assert first == again


def test_runs_are_listed_by_conversation_and_status(client, user):
    one, two = (conversation_create(user_id=user.pk) for _ in range(2))
    _say(user, one.id, 2)
    active = turn_submit(user_id=user.pk, conversation_id=two.id, content="hello").run.id

    assert len(_json(client.get("/api/runs"))["results"]) == 3
    assert len(_json(client.get("/api/runs", {"conversation": str(one.id)}))["results"]) == 2
    assert [row["id"] for row in _json(client.get("/api/runs?status=queued"))["results"]] == [str(active)]
    assert _json(client.get("/api/runs", {"conversation": str(uuid4())}))["results"] == []


def test_a_wrong_run_status_is_a_400(client):
    assert list(_json(client.get("/api/runs?status=sleeping"), 400)["errors"]) == ["status"]


def _steer(client, run_id, content: str, **headers: str):
    return client.post(f"/api/runs/{run_id}/steers", {"content": content}, content_type=JSON, headers=headers)


def test_a_message_for_a_run_at_work_is_kept_listed_and_can_be_taken_back(client, user):
    """RUN-07."""
    conversation = conversation_create(user_id=user.pk)
    run_id = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello").run.id

    made = _json(_steer(client, run_id, "and be brief", **{"Idempotency-Key": "k"}), 201)
    again = _json(_steer(client, run_id, "and be brief", **{"Idempotency-Key": "k"}), 200)

    assert made == again
    assert (made["content"], made["status"], made["client_key"]) == ("and be brief", "waiting", "k")
    assert _json(client.get(f"/api/runs/{run_id}/steers"))["results"] == [made]
    assert client.delete(f"/api/steers/{made['id']}").status_code == 204
    assert _json(client.get(f"/api/runs/{run_id}/steers"))["results"] == []


def test_a_message_for_a_run_that_is_over_is_409_with_its_code(client, user):
    conversation = conversation_create(user_id=user.pk)
    run_id = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello").run.id
    client.post(f"/api/runs/{run_id}/stop")

    body = _json(_steer(client, run_id, "too late"), 409)

    assert (body["code"], body["run_id"]) == ("run_ended", str(run_id))
    assert "send the message as a new one" in body["detail"]


def test_a_stopped_run_that_never_began_leaves_what_waits_as_the_next_turn(client, user):
    conversation = conversation_create(user_id=user.pk)
    run_id = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello").run.id
    steer = _json(_steer(client, run_id, "and be brief"), 201)

    client.post(f"/api/runs/{run_id}/stop")

    assert client.delete(f"/api/steers/{steer['id']}").status_code == 409
    [queued] = _json(client.get("/api/runs?status=queued"))["results"]
    messages = _json(client.get(f"/api/conversations/{conversation.id}/messages"))["results"]
    assert [row["content"] for row in messages] == ["hello", "and be brief"]
    assert queued["user_message_seq"] == messages[1]["seq"]


@pytest.mark.parametrize(
    ("body", "field"), [({}, "content"), ({"content": " "}, "content"), ({"content": "x", "a": 1}, "a")]
)
def test_a_steer_that_is_no_message_is_400_with_the_field(client, user, body, field):
    conversation = conversation_create(user_id=user.pk)
    run_id = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello").run.id

    response = client.post(f"/api/runs/{run_id}/steers", body, content_type=JSON)

    assert list(_json(response, 400)["errors"]) == [field]
