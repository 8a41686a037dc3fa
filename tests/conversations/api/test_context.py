"""What the model saw and would see, over REST."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from agentx.accounts.models import ApiToken
from conversations.context.render import canonical_request
from conversations.models import Conversation, Message, ModelRecord, Run
from conversations.services.conversations import conversation_create
from conversations.services.submit import turn_submit
from tests.conversations.answered import long_talk, turn_answer

pytestmark = pytest.mark.django_db
JSON = "application/json"
# Run; epoch with its conversation, segments, calls. The token with its user comes before them.
RUN_CONTEXT, TOKEN = 4, 1


@pytest.fixture(autouse=True)
def _small_model(settings):
    settings.LLM_MODEL = "scripted"
    settings.CONTEXT_WINDOW_TOKENS = 4_096


@pytest.fixture
def conversation_id(user):
    return conversation_create(user_id=user.pk).id


def _json(response, status: int = 200):
    assert response.status_code == status, response.content
    return json.loads(response.content)


def test_a_run_shows_what_the_model_saw(client, user, conversation_id):
    run, view = long_talk(user_id=user.pk, conversation_id=conversation_id)[-1]

    body = _json(client.get(f"/api/runs/{run.pk}/context"))

    allocation = body["view"]["allocation"]
    assert (body["run_id"], body["conversation_id"]) == (str(run.pk), str(conversation_id))
    assert sum(row["granted"] for row in allocation["rows"]) == allocation["used"]
    assert body["view"]["epoch"]["number"] == view.allocation.epoch
    assert body["view"]["fates"]["ranges"][0]["from_seq"] == 1
    assert body["request"] is None


def test_the_request_comes_when_it_is_asked_for(client, user, conversation_id):
    run, view = long_talk(user_id=user.pk, conversation_id=conversation_id)[-1]

    request = _json(client.get(f"/api/runs/{run.pk}/context?request=true"))["request"]

    assert request == {
        "rebuilt": "identical",
        "reason": None,
        "messages": canonical_request(messages=view.messages),
    }


def test_fates_can_be_limited_to_a_page_of_messages(client, user, conversation_id):
    run, _ = long_talk(user_id=user.pk, conversation_id=conversation_id)[-1]

    fates = _json(client.get(f"/api/runs/{run.pk}/context?from_seq=3&through_seq=4"))["view"]["fates"]

    assert (fates["from_seq"], fates["through_seq"], fates["truncated"]) == (3, 4, False)
    shown = [seq for item in fates["ranges"] for seq in range(item["from_seq"], item["through_seq"] + 1)]
    assert shown == [3, 4]


@pytest.mark.parametrize(
    "query", ["from_seq=0", "from_seq=x", "request=perhaps", "message=hello", "from_seq=1&from_seq=2"]
)
def test_a_bad_query_is_a_400(client, user, conversation_id, query):
    run, _ = turn_answer(user_id=user.pk, conversation_id=conversation_id, question="one")

    assert client.get(f"/api/runs/{run.pk}/context?{query}").status_code == 400


def test_a_run_that_has_not_ended_is_409_and_one_that_sent_nothing_404(client, user, conversation_id):
    run_id = turn_submit(user_id=user.pk, conversation_id=conversation_id, content="hello").run.id

    assert _json(client.get(f"/api/runs/{run_id}/context"), 409)["run_id"] == str(run_id)
    Run.objects.update(status="failed", final_seq=1)
    assert "Nothing is stored" in _json(client.get(f"/api/runs/{run_id}/context"), 404)["detail"]


def test_a_run_costs_three_queries_more_than_reading_it(
    client, user, conversation_id, django_assert_num_queries
):
    run, _ = long_talk(user_id=user.pk, conversation_id=conversation_id)[-1]
    client.get("/api/runs")
    ApiToken.objects.update(last_used_at=timezone.now())

    with django_assert_num_queries(TOKEN + RUN_CONTEXT):
        assert client.get(f"/api/runs/{run.pk}/context").status_code == 200


def test_a_preview_is_the_next_turn_and_leaves_everything_as_it_was(client, user, conversation_id):
    long_talk(user_id=user.pk, conversation_id=conversation_id, turns=4)
    path = f"/api/conversations/{conversation_id}/context"
    before = Conversation.objects.values().get(), Message.objects.count(), Run.objects.count()

    asked = _json(client.get(path, {"message": "What is the boat's name?", "request": "true"}))
    posted = _json(
        client.post(f"{path}?request=true", {"message": "What is the boat's name?"}, content_type=JSON)
    )

    assert asked == posted
    assert (asked["fits"], asked["epoch_change"]) == (True, None)
    assert (Conversation.objects.values().get(), Message.objects.count(), Run.objects.count()) == before
    _, view = turn_answer(
        user_id=user.pk, conversation_id=conversation_id, question="What is the boat's name?"
    )
    assert asked["messages"] == canonical_request(messages=view.messages)


def test_without_a_message_the_preview_has_an_empty_question(client, conversation_id):
    body = _json(client.get(f"/api/conversations/{conversation_id}/context"))

    assert (body["fits"], body["epoch_change"], body["view"]["question_seq"]) == (True, "start", 1)
    assert body["view"]["fates"] == {"from_seq": 1, "through_seq": 0, "truncated": False, "ranges": []}


def test_a_draft_that_cannot_fit_is_answered_not_refused(client, conversation_id):
    body = _json(
        client.post(
            f"/api/conversations/{conversation_id}/context", {"message": "word " * 30_000}, content_type=JSON
        )
    )

    assert (body["fits"], body["view"]) == (False, None)
    assert body["needs"]["question"] > body["budget"]
    assert ModelRecord.objects.count() == 0


@pytest.mark.parametrize("length", [20_000, 20_001])
def test_an_address_takes_so_many_characters_and_no_more(client, conversation_id, length):
    response = client.get(f"/api/conversations/{conversation_id}/context", {"message": "x" * length})

    assert response.status_code == (200 if length == 20_000 else 400)


def test_a_draft_that_could_not_be_sent_is_a_400(client, conversation_id):
    path = f"/api/conversations/{conversation_id}/context"

    assert client.post(path, {"message": "a\x00b"}, content_type=JSON).status_code == 400
    assert client.post(path, {"message": "x", "role": "system"}, content_type=JSON).status_code == 400


@pytest.mark.parametrize("suffix", ["", "?request=true"])
def test_nobody_elses_conversation_or_run_can_be_asked(client_for, user, other_user, conversation_id, suffix):
    run, _ = turn_answer(user_id=user.pk, conversation_id=conversation_id, question="secret")
    stranger = client_for(other_user)

    paths = (f"/api/runs/{run.pk}/context{suffix}", f"/api/conversations/{conversation_id}/context{suffix}")
    for path in paths:
        response = stranger.get(path)
        assert (response.status_code, b"secret" in response.content) == (404, False)
