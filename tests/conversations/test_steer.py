"""Messages sent while an answer is being written: taken in at a safe boundary or the next turn, and never lost."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

import pytest
from django.db.models.functions import Now

from agentx.accounts.models import User
from agentx.errors import DoesNotFit, KeyReused, NotFound, RunEnded, TooMany
from agentx.threads import in_db_thread
from conversations.models import Message, Run, Steer
from conversations.selectors.explain import run_context
from conversations.selectors.steers import steers_waiting
from conversations.services.attach import run_follow
from conversations.services.cancel import run_cancel
from conversations.services.leases import runs_claim, runs_reap
from conversations.services.steer import MOST_WAITING, steer_withdraw, turn_steer
from conversations.services.steering import steers_take
from conversations.services.submit import turn_submit
from tests.conversations.running import NoArguments, db, running
from tests.scripted_model import scripts
from tools.contracts import Tool, ToolContext, ToolResult

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Gate:
    """A tool that runs until the test lets it end."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, _context: ToolContext, _arguments: NoArguments) -> ToolResult:
        self.reached.set()
        await self.opened.wait()
        return ToolResult(content="The gate was opened.")

    @property
    def tool(self) -> Tool:
        return Tool("gate", "Wait.", "Waiting at the gate", "sample", NoArguments, self.run, timeout=20.0)


async def _steer(turns, run_id, text: str, key: str | None = None):
    return await in_db_thread(turn_steer, user_id=turns.user_id, run_id=run_id, content=text, client_key=key)


async def _ended(turns, run_id) -> list[dict]:
    events = []
    async with asyncio.timeout(30):
        async for item in run_follow(user_id=turns.user_id, run_id=run_id):
            events.append(json.loads(item.payload))
    return events


async def _all_ended() -> None:
    async with asyncio.timeout(30):
        while await db(lambda: Run.objects.filter(status__in=Run.ACTIVE).exists()):
            await asyncio.sleep(0.02)


def _stored() -> list[tuple[str, str, int]]:
    return [(row.role, row.content, row.turn) for row in Message.objects.order_by("seq")]


async def _asked(scripted) -> None:
    """Until the model has its first request: from then on the turn has no boundary before it ends."""
    await asyncio.to_thread(scripted.wait_until, lambda model: len(model.requests) == 1)


CALL = scripts.tool_calls(("gate", "{}"))
SLOWLY = scripts.answer("one two three").paced(tokens_per_second=4)


async def test_a_message_sent_while_tools_run_is_in_the_next_request(turns, scripted):
    """RUN-07: a person's own words behind the results, stored as such, told as an event."""
    gate = Gate()
    scripted.script(CALL, scripts.answer("In euros, then."))
    async with running(gate.tool):
        accepted = await turns.submit("What does it cost?")
        await gate.reached.wait()
        steered = await _steer(turns, accepted.run.id, "In euros, please", "key-1")
        gate.opened.set()
        events = await _ended(turns, accepted.run.id)

    sent = scripted.requests[1]["messages"]
    assert [message["role"] for message in sent[-3:]] == ["assistant", "tool", "user"]
    assert sent[-1]["content"] == "In euros, please"
    assert await db(_stored) == [
        ("user", "What does it cost?", 1),
        ("assistant", "", 1),
        ("tool", "The gate was opened.", 1),
        ("user", "In euros, please", 1),
        ("assistant", "In euros, then.", 1),
    ]
    message = await db(lambda: Message.objects.get(seq=4))
    assert (message.metadata, message.run_id) == ({"steered": True}, accepted.run.id)
    [told] = [event["data"] for event in events if event["type"] == "steer"]
    assert (told["steer_id"], told["message"]["content"]) == (str(steered.steer.id), "In euros, please")
    row = await db(Steer.objects.get)
    assert (row.content, row.message_id) == ("", message.pk)


async def test_the_request_that_took_a_message_in_can_be_made_again(turns, scripted):
    gate = Gate()
    scripted.script(CALL, scripts.answer("ok"))
    async with running(gate.tool):
        accepted = await turns.submit("What does it cost?")
        await gate.reached.wait()
        await _steer(turns, accepted.run.id, "In euros, please")
        gate.opened.set()
        await _ended(turns, accepted.run.id)

    body = await db(lambda: run_context(run=Run.objects.get(), request=True))

    assert body.request.rebuilt == "identical", body.request.reason


async def test_later_turns_have_it_where_it_was_said(turns, scripted):
    gate = Gate()
    scripted.script(CALL, scripts.answer("ok"))
    async with running(gate.tool):
        accepted = await turns.submit("What does it cost?")
        await gate.reached.wait()
        await _steer(turns, accepted.run.id, "In euros, please")
        gate.opened.set()
        await _ended(turns, accepted.run.id)
        await turns.say("And in yen?")

    before, after = scripted.requests[1]["messages"], scripted.requests[2]["messages"]
    assert after[: len(before)] == before
    assert [message["content"] for message in after[len(before) :]] == ["ok", "And in yen?"]


async def test_what_no_step_took_in_is_the_next_turn(turns, scripted):
    """A model that answers without a tool has no boundary: the message is answered right after."""
    scripted.script(SLOWLY, scripts.answer("As you like."))
    async with running():
        accepted = await turns.submit("Count")
        await _asked(scripted)
        await _steer(turns, accepted.run.id, "Stop at three", "key-1")
        await _all_ended()

    assert await db(_stored) == [
        ("user", "Count", 1),
        ("assistant", "one two three", 1),
        ("user", "Stop at three", 2),
        ("assistant", "As you like.", 2),
    ]
    runs = await db(lambda: list(Run.objects.order_by("created_at")))
    assert [run.client_key for run in runs] == [None, "key-1"]


async def test_of_several_that_were_left_the_others_join_the_first(turns, scripted):
    """Before that turn's first request, so that the model sees all of them at once, in order."""
    scripted.script(SLOWLY, scripts.answer("All three."))
    async with running():
        accepted = await turns.submit("Count")
        await _asked(scripted)
        for text in ("first", "second", "third"):
            await _steer(turns, accepted.run.id, text)
        await _all_ended()

    assert [message["content"] for message in scripted.requests[1]["messages"][-3:]] == [
        "first",
        "second",
        "third",
    ]
    assert [turn for _, _, turn in await db(_stored)] == [1, 1, 2, 2, 2, 2]
    assert len(scripted.requests) == 2


async def test_a_stop_leaves_what_waits_to_the_next_turn(turns, scripted):
    gate = Gate()
    scripted.script(CALL, scripts.answer("In euros."))
    async with running(gate.tool):
        accepted = await turns.submit("What does it cost?")
        await gate.reached.wait()
        await _steer(turns, accepted.run.id, "In euros, please")
        await in_db_thread(run_cancel, user_id=turns.user_id, run_id=accepted.run.id)
        await _all_ended()

    stored = await db(_stored)
    assert stored[-2:] == [("user", "In euros, please", 2), ("assistant", "In euros.", 2)]


async def test_a_dead_runner_leaves_what_it_had_taken_to_the_next_turn(turns, scripted):
    """Taken and not stored: the process died in between."""
    accepted = await turns.submit("What does it cost?")
    [claim] = await in_db_thread(runs_claim, owner="dead/1", limit=1)
    await _steer(turns, accepted.run.id, "In euros, please", "key-1")
    taken = await in_db_thread(steers_take, claim=claim)
    await db(lambda: Run.objects.update(lease_until=Now() - _hour()))

    await in_db_thread(runs_reap)

    run = await db(lambda: Run.objects.select_related("user_message").get(status="queued"))
    assert ([steer.content for steer in taken], run.user_message.content, run.client_key) == (
        ["In euros, please"],
        "In euros, please",
        "key-1",
    )


async def test_one_that_would_make_the_turn_too_large_is_the_next_turn(turns, scripted, settings):
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    gate = Gate()
    scripted.script(CALL, scripts.answer("The first."), scripts.answer("The second."))
    async with running(gate.tool):
        accepted = await turns.submit("word " * 1_500)
        await gate.reached.wait()
        await _steer(turns, accepted.run.id, "more " * 1_500)
        gate.opened.set()
        await _all_ended()

    stored = await db(_stored)
    assert [(role, turn) for role, _, turn in stored] == [
        ("user", 1),
        ("assistant", 1),
        ("tool", 1),
        ("assistant", 1),
        ("user", 2),
        ("assistant", 2),
    ]
    assert stored[-1][1] == "The second."


async def test_sending_it_again_finds_what_became_of_it(turns, scripted):
    gate = Gate()
    scripted.script(CALL, scripts.answer("ok"))
    async with running(gate.tool):
        accepted = await turns.submit("What does it cost?")
        await gate.reached.wait()
        first = await _steer(turns, accepted.run.id, "In euros", "key-1")
        again = await _steer(turns, accepted.run.id, "In euros", "key-1")
        with pytest.raises(KeyReused):
            await _steer(turns, accepted.run.id, "In yen", "key-1")
        gate.opened.set()
        await _ended(turns, accepted.run.id)

    late = await _steer(turns, accepted.run.id, "In euros", "key-1")
    sent = await in_db_thread(
        turn_submit,
        user_id=turns.user_id,
        conversation_id=turns.conversation_id,
        content="In euros",
        client_key="key-1",
    )

    assert (first.created, again.created, late.created, sent.created) == (True, False, False, False)
    assert (again.steer.id, late.steer.status, late.steer.seq) == (first.steer.id, "stored", 4)
    assert (sent.run.id, sent.message.seq) == (accepted.run.id, 4)
    assert await db(Run.objects.count) == 1


async def test_a_run_that_has_ended_takes_no_more(turns, runner, scripted):
    await turns.say("Hello")
    run = await db(Run.objects.get)

    with pytest.raises(RunEnded) as refused:
        await _steer(turns, run.pk, "Too late")

    assert refused.value.details == {"run_id": str(run.pk)}
    assert await db(Steer.objects.count) == 0


async def test_runs_of_others_do_not_exist(turns):
    """RUN-07: other users are refused, with what a made-up id gets."""
    accepted = await turns.submit("Hello")
    steered = await _steer(turns, accepted.run.id, "mine")
    stranger = await db(lambda: User.objects.create_user("stranger"))

    for attempt in (
        lambda: turn_steer(user_id=stranger.pk, run_id=accepted.run.id, content="x"),
        lambda: steer_withdraw(user_id=stranger.pk, steer_id=steered.steer.id),
        lambda: steers_waiting(user_id=stranger.pk, run_id=accepted.run.id),
    ):
        with pytest.raises(NotFound):
            await db(attempt)
    assert await db(Steer.objects.count) == 1


async def test_what_still_waits_can_be_taken_back(turns):
    accepted = await turns.submit("Hello")
    steered = await _steer(turns, accepted.run.id, "never mind")

    body, gone = await in_db_thread(steer_withdraw, user_id=turns.user_id, steer_id=steered.steer.id)

    assert (body.content, gone) == ("never mind", True)
    assert await in_db_thread(steers_waiting, user_id=turns.user_id, run_id=accepted.run.id) == []


async def test_what_is_being_taken_in_cannot_be_taken_back(turns):
    accepted = await turns.submit("Hello")
    [claim] = await in_db_thread(runs_claim, owner="runner/1", limit=1)
    steered = await _steer(turns, accepted.run.id, "too late")
    await in_db_thread(steers_take, claim=claim)

    body, gone = await in_db_thread(steer_withdraw, user_id=turns.user_id, steer_id=steered.steer.id)

    assert (body.status, gone) == ("taken", False)


async def test_one_run_has_a_limit_of_waiting_messages(turns):
    accepted = await turns.submit("Hello")
    for number in range(MOST_WAITING):
        await _steer(turns, accepted.run.id, f"message {number}")

    with pytest.raises(TooMany):
        await _steer(turns, accepted.run.id, "one more")


async def test_one_that_cannot_be_sent_even_alone_is_refused(turns, settings):
    settings.CONTEXT_WINDOW_TOKENS = 1_024
    accepted = await turns.submit("Hello")

    with pytest.raises(DoesNotFit):
        await _steer(turns, accepted.run.id, "word " * 3_000)


def _hour():
    from datetime import timedelta

    return timedelta(hours=1)
