"""Rare moments: what a provider may send, what may vanish meanwhile, and parts that must outlive a single failure."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from agentx.redis_client import redis_client
from agentx.threads import in_db_thread
from conversations.events import Delta, RunStarted, encode_event
from conversations.models import Message, ModelCall, Run
from conversations.services import attach
from conversations.services.attach import run_follow
from conversations.services.conversations import conversation_create
from conversations.services.leases import checkpoint_save, runs_claim, runs_reap
from conversations.services.submit import turn_submit
from conversations.stream import LogWriter, log_key
from tests.scripted_model import scripts

pytestmark = pytest.mark.django_db(transaction=True)


def _expire(run_id) -> None:
    Run.objects.filter(pk=run_id).update(lease_until=Now() - timedelta(seconds=1))


def test_p3_p7_a_send_settles_an_expired_run_with_its_partial_answer_and_comes_after_it(user):
    conversation = conversation_create(user_id=user.pk)
    turn_submit(user_id=user.pk, conversation_id=conversation.id, content="first")
    [claim] = runs_claim(owner="dead/1", limit=1)
    checkpoint_save(claim=claim, text="half an answer", seq=3)
    _expire(claim.run_id)

    turn_submit(user_id=user.pk, conversation_id=conversation.id, content="second")

    assert list(Message.objects.order_by("seq").values_list("seq", "turn", "content")) == [
        (1, 1, "first"),
        (2, 1, "half an answer"),
        (3, 2, "second"),
    ]


def test_p3_one_run_that_cannot_be_settled_does_not_keep_the_others_from_it(make_user):
    runs = []
    for _ in range(3):
        user = make_user()
        conversation = conversation_create(user_id=user.pk)
        runs.append(turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello").run.id)
    claims = {claim.run_id: claim for claim in runs_claim(owner="dead/1", limit=3)}
    poisoned = claims[runs[1]]
    broken = encode_event(run_id=str(poisoned.run_id), seq=1, data=Delta(text="not \x00 storable"))
    redis_client().xadd(log_key(poisoned.run_id), {"e": broken}, id="1-0")
    for run_id in runs:
        _expire(run_id)

    assert runs_reap() == 2

    assert [Run.objects.get(pk=run_id).status for run_id in runs] == ["interrupted", "running", "interrupted"]


@pytest.mark.parametrize("reason", ["x" * 500, "nul \x00 inside", {"kind": "stop"}, 7])
async def test_a_provider_cannot_lose_a_turn_by_an_odd_finish_reason(runner, turns, scripted, reason):
    chunk = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    scripted.script(scripts.then("one two", ("chunk", chunk)))

    events = await turns.say("hello")

    run = await in_db_thread(Run.objects.get)
    assert [event["type"] for event in events[-3:]] == ["message", "done", "close"]
    assert run.status == "completed"
    assert len(run.finish_reason) <= 40


async def test_a_provider_cannot_lose_a_turn_by_figures_no_column_holds(runner, turns, scripted):
    chunk = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10**12, "completion_tokens": 2, "total_tokens": 10**12},
    }
    scripted.script(scripts.then("one two", ("chunk", chunk)))

    await turns.say("hello")

    call = await in_db_thread(ModelCall.objects.get)
    assert (await in_db_thread(Run.objects.get)).status == "completed"
    assert (call.prompt_tokens, call.output_tokens) == (None, 2)
