"""Processes are killed in the middle of an answer. Nothing that was said is lost, and the next turn works."""

from __future__ import annotations

import signal

import pytest

from tests.scripted_model import scripts
from tests.stack import Client, Stack, answer_text, wait_for

pytestmark = pytest.mark.fault

LONG = "[[scripted-n150-tps30]]"  # five seconds of text


def _partial_shown(client: Client, run_id: str, *, deltas: int = 10) -> list[dict]:
    """Listen until some deltas have come."""
    got = []
    for event in client.events_live(run_id):
        got.append(event)
        if sum(item["type"] == "delta" for item in got) >= deltas:
            return got
    raise AssertionError("the answer ended early")


def test_p10_the_web_process_is_killed_and_the_answer_goes_on(stack: Stack, client: Client):
    """RUN-01."""
    conversation = client.conversation()
    run_id = client.accepted(conversation, LONG)
    seen = _partial_shown(client, run_id)

    stack.kill("web")
    stack.restart("web")

    rest = client.events(run_id, after=seen[-1]["seq"])
    assert answer_text([*seen, *rest]) == scripts.word_text(150)
    seqs = [event["seq"] for event in [*seen, *rest] if "seq" in event]
    assert seqs == list(range(1, len(seqs) + 1))
    assert client.run(run_id)["status"] == "completed"
    assert client.messages(conversation)[1]["content"] == scripts.word_text(150)


def test_p7_the_runner_is_killed_and_what_was_shown_is_kept(stack: Stack, client: Client):
    """RUN-05, RUN-03."""
    conversation = client.conversation()
    run_id = client.accepted(conversation, LONG)
    shown = answer_text(_partial_shown(client, run_id))

    stack.kill("runner")
    run = client.ended(run_id)

    question, answer = client.messages(conversation)
    assert question["content"] == LONG
    assert (run["status"], answer["status"], answer["metadata"]["interrupted"]) == (
        "interrupted",
        "interrupted",
        True,
    )
    assert answer["content"].startswith(shown[: len(shown) // 2])
    assert scripts.word_text(150).startswith(answer["content"])
    events = client.events(run_id)
    assert [event["type"] for event in events][-3:] == ["message", "error", "close"]
    assert answer_text(events) == answer["content"]

    stack.restart("runner")
    again = client.accepted(conversation, "hello")
    assert client.ended(again)["status"] == "completed"


def test_p9_a_frozen_runner_that_wakes_up_writes_nothing(stack: Stack, client: Client):
    conversation = client.conversation()
    run_id = client.accepted(conversation, LONG)
    _partial_shown(client, run_id)

    stack.kill("runner", signal.SIGSTOP)
    run = client.ended(run_id)
    stored = client.messages(conversation)
    stack.kill("runner", signal.SIGCONT)
    wait_for(lambda: "turn_abandoned" in stack.log("runner"), what="the runner to notice")

    assert run["status"] == "interrupted"
    assert client.messages(conversation) == stored
    assert client.run(run_id) == run
    assert client.ended(client.accepted(conversation, "hello"))["status"] == "completed"


def test_p20_sigterm_drains_the_runner_and_interrupts_the_rest(stack: Stack, client: Client):
    conversation = client.conversation()
    quick = client.accepted(client.conversation(), "[[scripted-n15-tps30]]")
    slow = client.accepted(conversation, "[[scripted-n900-tps30]]")
    _partial_shown(client, slow, deltas=3)

    stack.kill("runner", signal.SIGTERM)

    assert client.run(quick)["status"] == "completed"
    assert client.run(slow)["status"] == "interrupted"
    assert client.messages(conversation)[1]["status"] == "interrupted"
    assert stack.children["runner"].returncode == 0


def test_p11_valkey_is_killed_and_the_answer_is_stored_and_streaming_comes_back(stack: Stack, client: Client):
    conversation = client.conversation()
    run_id = client.accepted(conversation, LONG)
    listener = client.events_live(run_id)
    got = [next(listener) for _ in range(8)]

    stack.valkey_kill()
    for event in listener:
        got.append(event)
        if event["type"] == "live":
            break
    stack.valkey.start()
    got += list(listener)

    assert [event["available"] for event in got if event["type"] == "live"] == [False, True]
    assert answer_text(got) == scripts.word_text(150)
    assert client.run(run_id)["status"] == "completed"
    assert client.messages(conversation)[1]["content"] == scripts.word_text(150)
    assert answer_text(client.events(client.accepted(conversation, "hello"))) == scripts.word_text(20)


def test_p12_database_sessions_are_killed_again_and_again_and_the_answer_is_whole(
    stack: Stack, client: Client
):
    conversation = client.conversation()
    run_id = client.accepted(conversation, LONG)

    got = []
    for event in client.events_live(run_id):
        got.append(event)
        if event["type"] == "delta" and len(got) % 15 == 0:
            stack.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    assert answer_text(got) == scripts.word_text(150)
    assert client.run(run_id)["status"] == "completed"
    assert client.messages(conversation)[1]["content"] == scripts.word_text(150)


def test_the_status_page_says_what_is_down_and_that_it_is_back(stack: Stack, client: Client):
    """API-04."""

    def component(name: str) -> bool:
        return client.http.get("/api/status").json()["components"][name]["ok"]

    assert (component("redis"), component("worker"), component("runner")) == (True, False, True)

    stack.start("worker")
    wait_for(lambda: component("worker"), what="the worker to be seen")
    stack.valkey_kill()
    assert not component("redis")
    stack.valkey.start()
    wait_for(lambda: component("redis"), what="Redis to be back")

    # The worker and its beat found their broker again without a restart: the next report is newer than the outage.
    seen = stack.sql("SELECT seen_at FROM conversations_processpresence WHERE role = 'worker'")
    wait_for(
        lambda: stack.sql("SELECT seen_at FROM conversations_processpresence WHERE role = 'worker'") > seen,
        seconds=60,
        what="the worker to report again",
    )


def test_a_send_while_redis_is_down_is_accepted_and_answered(stack: Stack, client: Client):
    conversation = client.conversation()
    stack.valkey_kill()

    run_id = client.accepted(conversation, "[[scripted-n5]]")
    run = client.ended(run_id)

    assert run["status"] == "completed"
    assert client.messages(conversation)[1]["content"] == scripts.word_text(5)
    events = client.events(run_id)
    assert answer_text(events) == scripts.word_text(5)
    assert events[-1]["type"] == "close"
