"""Leases: one owner at a time, a void token writes nothing, and what an owner leaves behind is settled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from agentx.errors import LeaseLost, RunActive
from agentx.llm.messages import ToolCall
from agentx.redis_client import redis_client
from conversations.contracts import Exchange, Outcome
from conversations.events import Delta, RunStarted, decode_event, encode_event
from conversations.models import Message, Run
from conversations.services.commit import settled_read, turn_commit
from conversations.services.conversations import conversation_create
from conversations.services.exchanges import exchange_store
from conversations.services.leases import (
    Held,
    checkpoint_save,
    leases_renew,
    run_settle_if_expired,
    runs_claim,
    runs_reap,
)
from conversations.services.submit import turn_submit
from conversations.stream import APPEND_SCRIPT, head_key, log_key
from tools.contracts import Executed, ToolResult

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def submitted(make_user):
    """A queued run and who owns it."""
    user = make_user()
    conversation = conversation_create(user_id=user.pk)
    return user.pk, turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello").run


def _expire(run_id) -> None:
    from datetime import timedelta

    Run.objects.filter(pk=run_id).update(lease_until=Now() - timedelta(seconds=1))


def _outcome(text: str) -> Outcome:
    return Outcome(
        status="completed",
        message_status="complete",
        text=text,
        finish_reason="stop",
        truncated=False,
        had_thinking=False,
        calls=(),
        error=None,
        first_token_ms=1,
        total_ms=2,
    )


def _log(claim, *texts: str) -> None:
    events = [
        RunStarted(conversation_id=claim.conversation_id, user_message_seq=1, model="m", epoch=claim.epoch),
        *(Delta(text=text) for text in texts),
    ]
    payloads = [
        encode_event(run_id=str(claim.run_id), seq=i, data=event) for i, event in enumerate(events, 1)
    ]
    redis_client().eval(
        APPEND_SCRIPT,
        2,
        log_key(claim.run_id),
        head_key(claim.run_id),
        str(claim.token),
        "1",
        "0",
        "60",
        *payloads,
    )


def _in_thread(func):
    try:
        return func()
    finally:
        connection.close()


def test_p2_of_twenty_racing_sends_one_is_accepted(make_user):
    user = make_user()
    conversation = conversation_create(user_id=user.pk)

    def send() -> str:
        try:
            turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello")
        except RunActive:
            return "active"
        return "accepted"

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(_in_thread, [send] * 20))

    assert sorted(results) == ["accepted"] + ["active"] * 19
    assert Message.objects.count() == 1


def test_a_run_is_claimed_by_one_of_many_runners(submitted):
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(_in_thread, [lambda: runs_claim(owner=str(uuid4()), limit=5)] * 8))

    assert sum(len(found) for found in claims) == 1


def test_p9_a_void_token_can_neither_renew_nor_checkpoint_nor_commit(submitted):
    [claim] = runs_claim(owner="paused/1", limit=1)
    _expire(claim.run_id)
    runs_reap()

    renewal = leases_renew(held=[Held(run_id=claim.run_id, token=claim.token)])
    assert (renewal.renewed, renewal.lost) == (set(), {claim.run_id})
    assert checkpoint_save(claim=claim, text="zombie", seq=9) is False
    with pytest.raises(LeaseLost):
        turn_commit(claim=claim, outcome=_outcome("zombie"), last_seq=9)
    assert Message.objects.filter(role="assistant").count() == 0
    assert Run.objects.get().status == "interrupted"


@pytest.mark.parametrize(
    ("checkpoint", "logged", "kept"),
    [
        ("from the checkpoint", ["short"], "from the checkpoint"),
        ("from ", ["from ", "the log"], "from the log"),
    ],
)
def test_p7_the_reaper_keeps_the_checkpoint_and_what_the_log_adds_to_it(submitted, checkpoint, logged, kept):
    [claim] = runs_claim(owner="dead/1", limit=1)
    _log(claim, *logged)
    checkpoint_save(claim=claim, text=checkpoint, seq=2)
    _expire(claim.run_id)

    assert runs_reap() == 1

    answer, run = Message.objects.get(role="assistant"), Run.objects.get()
    assert (answer.content, answer.status, answer.metadata["interrupted"]) == (kept, "interrupted", True)
    assert (run.status, run.error["code"], run.error["retryable"]) == ("interrupted", "interrupted", True)
    events = [decode_event(fields[b"e"]) for _, fields in redis_client().xrange(log_key(claim.run_id))]
    assert [seq for seq, _ in events] == list(range(1, len(events) + 1))
    assert [data.type for _, data in events][-3:] == ["message", "error", "close"]
    assert events[-1][0] == run.final_seq


def test_p7_the_reaper_does_not_store_the_words_of_a_stored_step_again(submitted):
    [claim] = runs_claim(owner="dead/1", limit=1)
    call = ToolCall(id="call_0", name="current_date", arguments="{}")
    executed = Executed(call=call, result=ToolResult(content="today"), seconds=0.1, label="Looking")
    _log(claim, "Let me look. ", "So ", "it is")
    exchange_store(
        claim=claim, exchange=Exchange(text="Let me look. ", executed=(executed,)), excerpt=None, seq=2
    )
    _expire(claim.run_id)

    runs_reap()

    said = Message.objects.filter(role="assistant").order_by("seq").values_list("content", flat=True)
    assert list(said) == ["Let me look. ", "So it is"]


def test_p7_a_restarted_runner_settles_its_own_predecessor_at_once(submitted):
    [claim] = runs_claim(owner="runner-1/old", limit=1)
    checkpoint_save(claim=claim, text="half", seq=2)

    assert runs_reap(predecessor="runner-2", instance="runner-2/new") == 0
    assert runs_reap(predecessor="runner-1", instance="runner-1/new") == 1
    assert Message.objects.get(role="assistant").content == "half"


def test_p8_an_abandoned_run_is_never_executed_again(submitted):
    runs_claim(owner="dead/1", limit=1)
    _expire(submitted[1].id)
    runs_reap()

    assert runs_claim(owner="next/1", limit=5) == []


def test_p3_anybody_in_passing_settles_an_expired_run_and_the_next_turn_works(submitted):
    user_id, run = submitted
    runs_claim(owner="dead/1", limit=1)
    _expire(run.id)

    accepted = turn_submit(user_id=user_id, conversation_id=run.conversation_id, content="again")

    assert accepted.created
    assert Run.objects.get(pk=run.id).status == "interrupted"


def test_a_living_run_is_not_settled_in_passing(submitted):
    runs_claim(owner="alive/1", limit=1)

    assert not run_settle_if_expired(run_id=submitted[1].id)
    assert Run.objects.get().status == "running"


def test_p3_a_run_somebody_wanted_stopped_ends_as_cancelled(submitted):
    [claim] = runs_claim(owner="dead/1", limit=1)
    checkpoint_save(claim=claim, text="half", seq=2)
    Run.objects.update(cancel_requested=True)
    _expire(claim.run_id)

    runs_reap()

    assert (Run.objects.get().status, Message.objects.get(role="assistant").status) == (
        "cancelled",
        "stopped",
    )


def test_run_26_a_second_commit_of_the_same_turn_stores_nothing_more(submitted):
    """RUN-26."""
    [claim] = runs_claim(owner="r/1", limit=1)
    turn_commit(claim=claim, outcome=_outcome("once"), last_seq=3)

    with pytest.raises(LeaseLost):
        turn_commit(claim=claim, outcome=_outcome("twice"), last_seq=3)

    assert [m.content for m in Message.objects.filter(role="assistant")] == ["once"]


def test_a_row_that_somebody_has_locked_holds_up_no_other_renewal(make_user):
    for _ in range(2):
        user = make_user()
        conversation = conversation_create(user_id=user.pk)
        turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello")
    claims = runs_claim(owner="r/1", limit=2)
    busy, free = claims
    held = [Held(run_id=claim.run_id, token=claim.token) for claim in claims]

    with transaction.atomic(), ThreadPoolExecutor(1) as pool:
        Run.objects.select_for_update().get(pk=busy.run_id)
        renewal = pool.submit(_in_thread, lambda: leases_renew(held=held)).result(20)

    assert (renewal.renewed, renewal.lost) == ({free.run_id}, set())


def test_p6_a_commit_whose_reply_was_lost_is_found_again_by_its_token(submitted):
    [claim] = runs_claim(owner="r/1", limit=1)
    assert settled_read(claim=claim) is None
    settled = turn_commit(claim=claim, outcome=_outcome("once"), last_seq=3)

    assert settled_read(claim=claim) == settled
    assert settled_read(claim=replace(claim, token=uuid4())) is None
