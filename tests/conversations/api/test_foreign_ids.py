"""P17: every address that names something answers a stranger as if it did not exist.

The addresses come from the schema, so a new endpoint is tested from its first day.
"""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from drf_spectacular.generators import SchemaGenerator

from agentx.accounts.services import token_create
from conversations.models import Conversation, Message, Run, Steer
from conversations.services.conversations import conversation_create
from conversations.services.steer import turn_steer
from conversations.services.submit import turn_submit

pytestmark = pytest.mark.django_db

BODIES = {
    "context_preview_draft": {"message": "hello"},
    "conversation_rename": {"title": "taken over"},
    "run_steer": {"content": "hello"},
    "turn_submit": {"content": "hello"},
}


def _named_operations() -> list[tuple[str, str, str]]:
    """Method, path template and operation id of every operation with an id in its path."""
    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    return [
        (method, path, operation["operationId"])
        for path, methods in paths.items()
        if "{" in path
        for method, operation in methods.items()
    ]


OPERATIONS = _named_operations()


@pytest.fixture
def theirs(other_user) -> dict[str, object]:
    conversation = conversation_create(user_id=other_user.pk, title="private")
    accepted = turn_submit(user_id=other_user.pk, conversation_id=conversation.id, content="secret")
    token, _ = token_create(user_id=other_user.pk, name="theirs")
    steered = turn_steer(user_id=other_user.pk, run_id=accepted.run.id, content="secret too")
    return {
        "conversation_id": conversation.id,
        "run_id": accepted.run.id,
        "token_id": token.pk,
        "steer_id": steered.steer.id,
    }


def _state() -> tuple:
    return (
        list(Conversation.objects.values_list("pk", "title", "next_seq")),
        Message.objects.count(),
        list(Run.objects.values_list("pk", "status", "cancel_requested")),
        list(Steer.objects.values_list("pk", "content")),
    )


def test_the_schema_names_the_operations_this_is_about():
    assert sorted(operation for _, _, operation in OPERATIONS) == [
        "context_preview",
        "context_preview_draft",
        "conversation_delete",
        "conversation_read",
        "conversation_rename",
        "messages_list",
        "run_context",
        "run_events",
        "run_read",
        "run_steer",
        "run_steers",
        "run_stop",
        "steer_withdraw",
        "token_revoke",
        "turn_submit",
    ]


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=[name for _, _, name in OPERATIONS])
def test_p17_b51_what_belongs_to_somebody_else_is_404_and_stays_as_it_was(
    client, theirs, method, path, operation
):
    before = _state()
    body = BODIES.get(operation)

    response = client.generic(
        method.upper(),
        path.format(**theirs),
        json.dumps(body) if body else "",
        content_type="application/json",
    )

    assert response.status_code == 404
    assert json.loads(response.content)["code"] == "not_found"
    assert _state() == before


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=[name for _, _, name in OPERATIONS])
def test_p17_the_answer_is_the_same_for_what_never_existed(client, theirs, method, path, operation):
    nothing = {
        "conversation_id": uuid4(),
        "run_id": uuid4(),
        "token_id": 2_000_000_000,
        "steer_id": uuid4(),
    }
    body = json.dumps(BODIES[operation]) if operation in BODIES else ""

    def problem(ids: dict) -> dict:
        response = client.generic(method.upper(), path.format(**ids), body, content_type="application/json")
        return {key: value for key, value in json.loads(response.content).items() if key != "request_id"}

    assert problem(theirs) == problem(nothing)


def test_p17_lists_show_nothing_of_others(client, theirs):
    assert json.loads(client.get("/api/conversations").content) == {"results": [], "next": None}
    assert json.loads(client.get("/api/runs").content) == {"results": [], "next": None}
    listed = json.loads(client.get("/api/runs", {"conversation": str(theirs["conversation_id"])}).content)
    assert listed == {"results": [], "next": None}
    names = [row["name"] for row in json.loads(client.get("/api/tokens").content)["results"]]
    assert names == ["tests"]
