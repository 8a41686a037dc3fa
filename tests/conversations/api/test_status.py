"""Health, readiness and status, with parts up and with parts down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client

from conversations.selectors import health
from conversations.services.presence import presence_save

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def model_away(settings):
    settings.LLM_BASE_URL = "http://127.0.0.1:1/v1"


def test_health_needs_nobody_and_nothing():
    response = Client().get("/api/health")

    assert (response.status_code, json.loads(response.content)) == (200, {"status": "ok"})


def test_ready_names_its_parts():
    response = Client().get("/api/ready")

    body = json.loads(response.content)
    assert response.status_code == 200
    assert {name: part["ok"] for name, part in body["components"].items()} == {
        "database": True,
        "redis": True,
        "broker": True,
    }


def test_status_is_for_those_who_are_signed_in():
    assert Client().get("/api/status").status_code == 401


def test_status_takes_the_session_that_a_browser_has(make_user, model_away):
    browser = Client()
    browser.force_login(make_user())

    response = browser.get("/api/status")

    assert response.status_code == 200
    assert json.loads(response.content)["components"]["database"]["detail"] == "answers"


def test_status_shows_who_is_at_work_and_what_is_away(transactional_db, client, model_away):
    presence_save(role="runner", instance="one")

    body = json.loads(client.get("/api/status").content)

    assert body["ok"] is False
    assert {name: part["ok"] for name, part in body["components"].items()} == {
        "database": True,
        "redis": True,
        "runner": True,
        "worker": False,
        "model": False,
    }
    assert body["components"]["worker"]["detail"] == "has not been seen for 30 seconds"
    assert body["components"]["model"]["detail"] == "cannot be reached"


def test_a_process_that_was_seen_too_long_ago_is_away(transactional_db, model_away):
    from django.db import connection

    presence_save(role="runner", instance="one")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE conversations_processpresence SET seen_at = now() - interval '31 seconds'")

    assert health.status_read()["runner"].ok is False


SCRIPT = """
import django, json
django.setup()
from django.test import Client
client = Client()
print(json.dumps({path: [(answer := client.get(path)).status_code, json.loads(answer.content)]
                  for path in ("/api/health", "/api/ready", "/api/status")}))
"""


def test_with_everything_down_each_answers_and_says_so():
    env = os.environ | {
        "DATABASE_URL": "postgresql://agentx@127.0.0.1:1/agentx",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "LLM_BASE_URL": "http://127.0.0.1:1/v1",
        "DJANGO_SETTINGS_MODULE": "agentx.settings.test",
    }

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )

    answers = json.loads(done.stdout.strip().splitlines()[-1])
    assert answers["/api/health"] == [200, {"status": "ok"}]
    assert answers["/api/ready"][0] == 503
    assert {name: part["ok"] for name, part in answers["/api/ready"][1]["components"].items()} == {
        "database": False,
        "redis": False,
        "broker": False,
    }
    names = ("database", "redis", "runner", "worker", "model")
    assert answers["/api/status"] == [
        200,
        {"ok": False, "components": {name: {"ok": False, "detail": None} for name in names}, "version": None},
    ]
