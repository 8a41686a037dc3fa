"""After a turn, the real worker finds the task in the queue and keeps the conversation's ledger."""

from __future__ import annotations

import pytest
import redis

from tests.stack import running_stack, wait_for

SWEEP = "conversations.after_turn_sweep"

pytestmark = pytest.mark.flow


def test_sta_22_a_worker_keeps_the_ledger_after_a_turn_and_the_sweep_catches_up(tmp_path):
    """STA-22: with the queue lost, the sweep does the same for the next turn."""
    with running_stack(tmp_path, processes=("web", "runner", "worker")) as stack:
        client = stack.client()
        broker = redis.Redis.from_url(stack.valkey.url)
        conversation = client.conversation()

        def cursor() -> int:
            query = "SELECT cursor FROM conversations_evidenceledger WHERE conversation_id = %s"
            return (stack.sql(query, conversation) or [(0,)])[0][0]

        client.ended(client.accepted(conversation, "It must stay under 700 euros"))
        wait_for(lambda: cursor() == 2, what="the ledger of the first turn")

        stack.kill("worker")
        client.ended(client.accepted(conversation, "And never on a Monday"))
        wait_for(lambda: broker.llen("celery"), what="the task of the second turn")
        assert cursor() == 2
        broker.delete("celery")
        stack.restart("worker")
        stack.manage("shell", "-c", f"from celery import current_app; current_app.send_task({SWEEP!r})")
        wait_for(lambda: cursor() == 4, what="the sweep")

        buckets = stack.sql("SELECT buckets FROM conversations_evidenceledger")[0][0]
        assert [entry["text"] for entry in buckets["constraints"]] == [
            "It must stay under 700 euros",
            "And never on a Monday",
        ]
