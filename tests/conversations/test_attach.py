"""Attaching at any moment, to a log in any condition: every event once, in order, or an explicit reset."""

from __future__ import annotations

import asyncio
import random

import orjson
import pytest

from agentx.errors import NotFound, TooMany
from agentx.redis_client import redis_client
from agentx.threads import in_db_thread
from conversations.models import Message, Run
from conversations.services import hub
from conversations.services.attach import run_follow
from conversations.services.hub import Listener
from conversations.stream import head_key, log_key
from tests.scripted_model import scripts

pytestmark = pytest.mark.django_db(transaction=True)


def _events(items: list[dict]) -> list[dict]:
    return [item for item in items if "seq" in item]


def _shown(items: list[dict]) -> str:
    """The text that a listener ends up with, by the rules of the protocol."""
    text = ""
    for item in items:
        if item["type"] == "delta":
            text += item["data"]["text"]
        elif item["type"] == "reset":
            text = item["partial"]["text"]
        elif item["type"] == "message":
            text = item["data"]["message"]["content"]
    return text


async def _finished(turns) -> tuple:
    """A finished run of some thirty events, and all of them."""
    accepted = await turns.submit("[[scripted-n20-tps100]]")
    return accepted.run.id, _events(await turns.follow(accepted.run.id))


async def _logged(run_id, *, at_least: int) -> int:
    """The seq of the newest event, once there are that many."""
    while (head := await hub.log_hub().log_head(run_id=str(run_id))) < at_least:
        await asyncio.sleep(0.02)
    return head


async def _answer() -> str:
    return await in_db_thread(lambda: Message.objects.get(role="assistant").content)


async def test_p5_attach_after_every_seq_gives_exactly_the_rest(runner, turns):
    """RUN-04."""
    run_id, whole = await _finished(turns)

    for after in range(len(whole)):
        assert _events(await turns.follow(run_id, after=after)) == whole[after:]


async def test_p5_listeners_that_join_while_it_runs_all_get_the_same_tail(runner, turns):
    rng = random.Random(7)
    accepted = await turns.submit("[[scripted-n120-tps100]]")

    async def join() -> tuple[int, list[dict]]:
        await asyncio.sleep(rng.random() * 1.2)
        head = await hub.log_hub().log_head(run_id=str(accepted.run.id))
        after = rng.randint(0, head)
        return after, _events(await turns.follow(accepted.run.id, after=after))

    whole, *joined = await asyncio.gather(turns.follow(accepted.run.id), *(join() for _ in range(40)))

    for after, events in joined:
        assert events == _events(whole)[after:]


async def test_p5_listeners_that_leave_and_come_back_miss_and_repeat_nothing(runner, turns):
    rng = random.Random(11)
    accepted = await turns.submit("[[scripted-n100-tps100]]")
    got: list[dict] = []

    while not got or got[-1]["type"] != "close":
        enough = rng.randint(1, 12)
        follow = run_follow(
            user_id=turns.user_id,
            run_id=accepted.run.id,
            after=len(got),
            epoch=accepted.run.epoch,
        )
        async for item in follow:
            if item.seq is not None:
                got.append(orjson.loads(item.payload))
                enough -= 1
            if not enough:
                break
        await follow.aclose()

    assert [event["seq"] for event in got] == list(range(1, len(got) + 1))
    assert _shown(got) == scripts.word_text(100)


async def test_run_04_an_expired_log_answers_run_missing(runner, turns):
    """RUN-04."""
    run_id, _ = await _finished(turns)
    redis_client().delete(log_key(run_id), head_key(run_id))

    items = await turns.follow(run_id)

    assert [item["type"] for item in items] == ["attached", "run_missing"]
    assert items[1]["run_status"] == "completed"


async def test_p5_the_end_is_made_from_the_row_when_the_log_lacks_it(runner, turns):
    run_id, whole = await _finished(turns)
    for event in whole[-3:]:
        redis_client().xdel(log_key(run_id), f"{event['seq']}-0")

    items = await turns.follow(run_id, after=4)

    assert _events(items) == whole[4:]


async def test_p5_a_trimmed_log_is_a_reset_not_a_gap(runner, turns):
    run_id, whole = await _finished(turns)
    redis_client().xtrim(log_key(run_id), maxlen=5, approximate=False)

    items = await turns.follow(run_id, after=2)

    assert [item["type"] for item in items] == ["attached", "reset", "message", "done", "close"]
    assert _shown(items) == await _answer()
    assert _events(items) == whole[-3:]


async def test_b62_attaching_beyond_the_head_of_a_running_run_starts_over(runner, turns):
    accepted = await turns.submit("[[scripted-n60-tps60]]")
    first = asyncio.create_task(turns.follow(accepted.run.id))
    await _logged(accepted.run.id, at_least=8)

    items = await turns.follow(accepted.run.id, after=1_000_000)

    assert [item["type"] for item in items[:2]] == ["attached", "reset"]
    assert _events(items) == _events(await first)


async def test_p5_seqs_of_another_log_are_not_trusted(runner, turns):
    run_id, whole = await _finished(turns)

    items = await turns.follow(run_id, after=9, epoch="another:1")

    assert items[0]["type"] == "reset"
    assert items[0]["partial"] == {"text": "", "seq": 0}
    assert _events(items) == whole


async def test_p11_a_flush_in_the_middle_loses_no_text_for_anybody(runner, turns):
    accepted = await turns.submit("[[scripted-n120-tps60]]")
    early = asyncio.create_task(turns.follow(accepted.run.id))
    before = await _logged(accepted.run.id, at_least=20)

    redis_client().flushdb()
    await _logged(accepted.run.id, at_least=before + 5)
    late = asyncio.create_task(turns.follow(accepted.run.id))

    assert _shown(await asyncio.wait_for(early, 20)) == scripts.word_text(120)
    late_items = await asyncio.wait_for(late, 20)
    assert _shown(late_items) == scripts.word_text(120)
    assert "reset" in [item["type"] for item in late_items]
    assert (await in_db_thread(lambda: Run.objects.get().status)) == "completed"
    seqs = [event["seq"] for event in _events(late_items)]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))


async def test_p17_another_users_run_cannot_be_followed(runner, turns, make_user):
    """OPS-04."""
    run_id, _ = await _finished(turns)
    stranger = await in_db_thread(make_user)

    with pytest.raises(NotFound):
        async for _ in run_follow(user_id=stranger.pk, run_id=run_id):
            pass


async def test_p19_a_listener_that_does_not_read_is_cut_off_not_buffered(settings):
    settings.SLOW_CLIENT_BYTES = 1000
    listener = Listener("r")

    for seq in range(1, 50):
        listener.put(seq, b"x" * 100)

    with pytest.raises(TooMany):
        await listener.take(timeout=0.1)
    assert listener._items == []
