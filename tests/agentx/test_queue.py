"""The queue's edge: after commit, by registered name, and never at the caller's expense."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
import threading
from base64 import b64decode
from pathlib import Path
from uuid import uuid4

import pytest
from celery import current_app
from django.conf import settings
from django.db import transaction

from agentx.queue import enqueue_on_commit, queue_flush
from agentx.redis_client import redis_client

ROOT = Path(__file__).resolve().parent.parent.parent
QUEUE = "celery"


@pytest.fixture
def queued(transactional_db):
    """A function that tells what lies in the queue, oldest first, as (task, keyword arguments)."""
    assert queue_flush(timeout=20)
    redis_client().delete(QUEUE)

    def read() -> list[tuple[str, dict]]:
        assert queue_flush(timeout=20)
        messages = [json.loads(raw) for raw in reversed(redis_client().lrange(QUEUE, 0, -1))]
        return [(m["headers"]["task"], json.loads(b64decode(m["body"]))[1]) for m in messages]

    yield read
    redis_client().delete(QUEUE)


def _python(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "import django; django.setup()\n" + code],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "agentx.settings.test"} | env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_task_is_queued_when_the_transaction_has_committed(queued):
    conversation_id = uuid4()

    with transaction.atomic():
        enqueue_on_commit("conversations.after_turn", conversation_id=conversation_id)
        before = queued()

    assert before == []
    assert queued() == [("conversations.after_turn", {"conversation_id": str(conversation_id)})]


def test_a_transaction_that_rolls_back_queues_nothing(queued):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        enqueue_on_commit("conversations.after_turn", conversation_id=uuid4())
        raise ZeroDivisionError

    assert queued() == []


def test_a_name_that_no_task_has_fails_at_once(queued):
    with pytest.raises(LookupError, match=r"conversations\.after_trun"):
        enqueue_on_commit("conversations.after_trun", conversation_id=uuid4())

    assert queued() == []


def test_order_is_kept_and_a_connection_that_was_cut_costs_nothing(queued):
    enqueue_on_commit("conversations.after_turn", conversation_id="1")
    assert len(queued()) == 1
    redis_client().client_kill_filter(_type="normal", skipme=True)

    enqueue_on_commit("conversations.after_turn", conversation_id="2")
    enqueue_on_commit("conversations.after_turn", conversation_id="3")

    assert [ids["conversation_id"] for _, ids in queued()] == ["1", "2", "3"]


def test_our_application_is_that_of_every_thread():
    """Celery's own way makes it current in the importing thread alone; elsewhere a default one with another broker is."""
    seen = []
    thread = threading.Thread(target=lambda: seen.append((current_app.main, current_app.conf.broker_url)))
    thread.start()
    thread.join()

    assert seen == [("agentx", settings.CELERY_BROKER_URL)]


def test_a_forked_child_sends_by_itself(queued):
    code = """
import os
from agentx.queue import enqueue_on_commit, queue_flush
enqueue_on_commit("conversations.after_turn", conversation_id="parent")
assert queue_flush(timeout=20)
child = os.fork()
if not child:
    from django.db import connection
    connection.connection = None  # the parent's
    enqueue_on_commit("conversations.after_turn", conversation_id="child")
    os._exit(0 if queue_flush(timeout=20) else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    _python(code)

    assert [ids["conversation_id"] for _, ids in queued()] == ["parent", "child"]


def test_a_process_that_ends_sends_what_it_has_queued(queued):
    _python(
        "from agentx.queue import enqueue_on_commit\n"
        "enqueue_on_commit('conversations.after_turn', conversation_id='last')"
    )

    assert [ids["conversation_id"] for _, ids in queued()] == ["last"]


def test_a_broker_that_never_answers_holds_nobody_up(db):
    """It accepts and stays silent, so the sender hangs: callers go on, and what is too much is dropped and logged."""
    code = """
from agentx.queue import WAITING_AT_MOST, enqueue_on_commit, queue_flush
for number in range(WAITING_AT_MOST + 3):
    enqueue_on_commit("conversations.after_turn", conversation_id=str(number))
print("flushed", queue_flush(timeout=0.01))
"""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen(8)
        printed = _python(code, REDIS_URL=f"redis://127.0.0.1:{mute.getsockname()[1]}/0")

    assert "flushed False" in printed
    assert printed.count('"too many are waiting"') in (2, 3)  # the sender may have taken one already


def test_an_absent_broker_is_a_warning(db):
    code = """
from agentx import queue
queue._send("conversations.after_turn", {"conversation_id": "1"})
"""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        printed = _python(code, REDIS_URL=f"redis://127.0.0.1:{nobody.getsockname()[1]}/0")

    assert '"task_dropped"' in printed
    assert '"conversation_id": "1"' in printed


def _names_queued() -> list[tuple[str, str]]:
    found = []
    for package in ("agentx", "conversations"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                called = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "enqueue_on_commit"
                if called:
                    assert isinstance(node.args[0], ast.Constant), f"{path}: a task's name is written out"
                    found.append((str(path.relative_to(ROOT)), node.args[0].value))
    return found


def test_every_name_that_is_queued_or_scheduled_is_a_task():
    current_app.autodiscover_tasks(force=True)
    scheduled = [("beat", entry["task"]) for entry in settings.CELERY_BEAT_SCHEDULE.values()]
    names = [*_names_queued(), *scheduled]

    assert ("conversations/services/commit.py", "conversations.after_turn") in names
    assert [(place, name) for place, name in names if name not in current_app.tasks] == []
