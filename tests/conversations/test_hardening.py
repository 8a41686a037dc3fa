"""Rare moments: what a provider may send, what may vanish meanwhile, and parts that must outlive a single failure."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

import orjson
import pytest
import redis
from django.db.models.functions import Now

from agentx.embedded.valkey import EmbeddedValkey
from agentx.redis_client import redis_client
from agentx.threads import in_db_thread
from conversations.events import Delta, Thinking, encode_event
from conversations.models import Message, ModelCall, Run
from conversations.services import hub
from conversations.services.attach import run_follow
from conversations.services.conversations import conversation_create
from conversations.services.leases import checkpoint_save, runs_claim, runs_reap
from conversations.services.submit import turn_submit
from conversations.stream import BUFFERED_EVENTS, LogWriter, log_key
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


async def test_p11_whoever_attaches_while_redis_is_away_gets_what_was_saved_and_then_the_end(
    transactional_db, turns, settings
):
    accepted = await turns.submit("hello")
    [claim] = await in_db_thread(runs_claim, owner="r/1", limit=1)
    await in_db_thread(checkpoint_save, claim=claim, text="so far", seq=7)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"  # nothing listens there

    shown = []
    async with asyncio.timeout(10):
        async for item in run_follow(user_id=turns.user_id, run_id=accepted.run.id):
            shown.append(orjson.loads(item.payload))
            if item.type == "reset":
                break

    assert [frame["type"] for frame in shown] == ["attached", "live", "reset"]
    assert shown[-1]["partial"] == {"text": "so far", "seq": 7}


async def test_p5_a_log_that_reaches_beyond_the_end_of_its_run_still_ends_at_once(runner, turns):
    accepted = await turns.submit("[[scripted-n5]]")
    whole = [event for event in await turns.follow(accepted.run.id) if "seq" in event]
    log, final = log_key(accepted.run.id), whole[-1]["seq"]
    redis_client().xdel(log, f"{final}-0")
    for seq in (final + 1, final + 2):
        late = encode_event(run_id=str(accepted.run.id), seq=seq, data=Delta(text="late"))
        redis_client().xadd(log, {"e": late}, id=f"{seq}-0")

    items = await asyncio.wait_for(
        turns.follow(accepted.run.id, after=2), 5
    )  # the row is looked at every 10 s

    assert [item["type"] for item in items][-1] in ("close", "run_missing")


async def test_b62_attaching_beyond_the_head_of_a_queued_run_starts_over(scripted, turns):
    from conversations.runner import Runner

    accepted = await turns.submit("[[scripted-n5]]")
    following = asyncio.create_task(turns.follow(accepted.run.id, after=1_000))
    while not hub.log_hub()._listeners:
        await asyncio.sleep(0.01)
    runner = Runner()
    working = asyncio.create_task(runner.run())

    items = await asyncio.wait_for(following, 10)
    runner.stop()
    await working

    assert [item["type"] for item in items[:2]] == ["attached", "reset"]
    assert next(item["seq"] for item in items if "seq" in item) == 1


async def test_p5_two_hundred_listeners_at_once_are_all_served_from_the_log(runner, turns):
    accepted = await turns.submit("[[scripted-n60-tps30]]")
    while await hub.log_hub().log_head(run_id=str(accepted.run.id)) < 10:
        await asyncio.sleep(0.05)

    all_items = await asyncio.wait_for(
        asyncio.gather(*(turns.follow(accepted.run.id) for _ in range(200))), 30
    )

    assert {items[0]["type"] for items in all_items} == {"attached"}
    assert [item["type"] for items in all_items for item in items if item["type"] in ("reset", "live")] == []
    assert all(items[1:] == all_items[0][1:] for items in all_items)


async def test_the_log_writer_outlives_whatever_one_of_its_logs_does(settings):
    writer = LogWriter(url=settings.REDIS_URL, flush_seconds=0.01)
    broken, sound = (writer.open(run_id=uuid4(), token=uuid4()) for _ in range(2))

    async def fail() -> None:
        raise RuntimeError("a checkpoint that cannot be saved")

    broken.on_loss, broken.lost, broken.covered = fail, True, False
    broken.emit(Delta(text="one"))
    await broken.flushed(timeout=2)
    sound.emit(Delta(text="two"))

    assert await sound.flushed(timeout=2)
    assert await broken.flushed(timeout=2)
    await writer.aclose()


async def test_p11_a_full_redis_is_treated_as_none_and_takes_bounded_memory(tmp_path):
    valkey = EmbeddedValkey(data_dir=tmp_path / "valkey", log_file=tmp_path / "valkey.log", durable=False)
    url = valkey.start()
    try:
        client = redis.Redis.from_url(url)
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        writer = LogWriter(url=url, flush_seconds=0.01)
        run_log = writer.open(run_id=uuid4(), token=uuid4())
        for number in range(600):
            run_log.emit(Delta(text=str(number)))
            run_log.emit(Thinking(text=str(number)))  # in turns, so that nothing is joined
        await asyncio.sleep(1.5)

        assert writer.down_since is not None
        assert len(run_log._unsent) <= BUFFERED_EVENTS
        client.config_set("maxmemory", 0)
        run_log.emit(Delta(text="again"))
        assert await run_log.flushed(timeout=5)
        assert client.xlen(log_key(run_log.run_id)) > 0
        await writer.aclose()
    finally:
        valkey.stop()


async def test_p20_a_second_signal_ends_the_grace_of_a_draining_runner(scripted, turns, settings):
    from conversations.runner import Runner

    settings.RUN_DRAIN_SECONDS = 300.0
    runner = Runner()
    working = asyncio.create_task(runner.run())
    await turns.submit("[[scripted-n1000-tps20]]")
    while (await in_db_thread(lambda: Run.objects.get().partial_text)) == "":
        await asyncio.sleep(0.05)

    runner.stop()
    await asyncio.sleep(0.1)
    runner.stop()
    await asyncio.wait_for(working, 10)

    assert (await in_db_thread(Run.objects.get)).status == "interrupted"


async def test_a_loop_of_the_runner_outlives_an_error_nobody_thought_of(scripted):
    from conversations.runner import Runner

    def fail() -> None:
        raise RuntimeError("unforeseen")

    assert await Runner()._guarded(fail) is None
