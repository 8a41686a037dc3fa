"""The schema is complete, committed as it is, and true: what endpoints answer conforms to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import schemathesis
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.test import Client
from hypothesis import HealthCheck, settings

from agentx.accounts.services import token_create
from conversations.events import EVENT_TYPES, SERVER_FRAMES
from conversations.services.conversations import conversation_create

COMMITTED = Path(__file__).resolve().parents[3] / "frontend" / "openapi.json"


def test_the_schema_has_no_warnings_and_equals_the_committed_file(tmp_path):
    """Run ``manage.py spectacular --format openapi-json --file frontend/openapi.json`` when this fails."""
    made = tmp_path / "openapi.json"

    call_command(
        "spectacular", "--validate", "--fail-on-warn", "--format", "openapi-json", "--file", str(made)
    )

    assert made.read_text() == COMMITTED.read_text()


def test_every_event_frame_and_command_is_a_component():
    components = json.loads(COMMITTED.read_text())["components"]["schemas"]

    for kind, event in EVENT_TYPES.items():
        envelope = components[f"Event{event.__name__}"]
        assert envelope["properties"]["type"] == {"type": "string", "const": kind}
        assert envelope["required"] == ["seq", "type", "run_id", "data"]
    assert len(components["RunEvent"]["oneOf"]) == len(EVENT_TYPES)
    assert len(components["ServerFrame"]["oneOf"]) == len(SERVER_FRAMES)
    assert sorted(components["ClientCommand"]["discriminator"]["mapping"]) == [
        "attach",
        "ping",
        "send",
        "steer",
        "stop",
        "withdraw",
    ]


def test_the_docs_page_runs_no_inline_script_and_only_it_may_style_inline():
    page = Client().get("/api/docs/")
    elsewhere = Client().get("/api/health")

    assert page.status_code == 200
    assert page.content.count(b"<script>") == 0
    assert "script-src 'self';" in page["Content-Security-Policy"] + ";"
    assert "style-src 'self' 'unsafe-inline'" in page["Content-Security-Policy"]
    assert "unsafe-inline" not in elsewhere["Content-Security-Policy"]
    assert Client().get("/api/docs/?script=").status_code == 200


schema = schemathesis.openapi.from_wsgi("/api/schema/", get_wsgi_application())


@schema.exclude(path_regex="/events$").exclude(path="/api/status").parametrize()
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@pytest.mark.django_db(transaction=True)  # the whole WSGI way ends with closing connections
def test_whatever_is_sent_no_answer_is_a_500_and_all_conform(case, user):
    _, secret = token_create_once(user)
    case.headers["Authorization"] = f"Bearer {secret}"
    if "conversation_id" in case.path_parameters:
        case.path_parameters["conversation_id"] = str(conversation_create(user_id=user.pk).id)
    for parameter in ("stream", "wait"):
        case.query.pop(parameter, None)  # no runner is at work here: these would wait for one

    response = case.call()

    if response.status_code == 405:  # the tool also tries methods that the schema does not have
        assert case.method.lower() not in case.operation.schema.raw_schema["paths"][case.operation.path]
        return
    case.validate_response(
        response,
        checks=[
            schemathesis.checks.not_a_server_error,
            schemathesis.specs.openapi.checks.status_code_conformance,
            schemathesis.specs.openapi.checks.response_schema_conformance,
            schemathesis.specs.openapi.checks.content_type_conformance,
        ],
    )


def token_create_once(user):
    """A fresh token; the user's older ones make room, since examples share one test's transaction."""
    user.api_tokens.all().delete()
    return token_create(user_id=user.pk, name="schemathesis")
