"""Turns whose model cannot be reached: another one answers, says so, and is asked only what it can take."""

from __future__ import annotations

import json
import socket

import pytest

from agentx.model_routes import route_health
from conversations.models import ContextEpoch, Message, ModelCall, ModelRecord, Run
from conversations.selectors.explain import run_context
from tests.conversations.running import NoArguments, announced, db, running, stop_at
from tests.scripted_model import ScriptedModel, scripts
from tools.contracts import Tool, ToolContext, ToolResult

# The scripted server answers to names that begin so.
SPARE = "scripted-n4"

pytestmark = pytest.mark.django_db(transaction=True)


def _note(_context: ToolContext, _arguments: NoArguments) -> ToolResult:
    return ToolResult(content="noted")


NOTE = Tool("note", "Note.", "Noting", "sample", NoArguments, _note)


@pytest.fixture(scope="module")
def spare_server():
    with ScriptedModel() as running:
        yield running


@pytest.fixture
def spare(spare_server, scripted, settings):
    """A second model server, which stands in for the first."""
    spare_server.reset()
    route_health._failed.clear()
    settings.LLM_FALLBACKS = [f"{SPARE}@{spare_server.base_url}"]
    yield spare_server
    route_health._failed.clear()


@pytest.fixture
async def with_note(spare, transactional_db):
    async with running(NOTE):
        yield


def _dead_address() -> str:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}/v1"


@pytest.mark.parametrize(
    "refusal",
    [scripts.key_echoed(), scripts.html(404), scripts.html(200), scripts.html(503)],
    ids=["key", "address", "page", "down"],
)
async def test_a_provider_that_does_not_serve_is_stood_in_for(spare, runner, turns, scripted, refusal):
    """PRV-01, PRV-04: the status names both models, the answer the one that gave it."""
    scripted.script(refusal, refusal)
    spare.script(scripts.answer("From the spare."))

    events = await turns.say("Hello")

    run, answer = await db(lambda: (Run.objects.get(), Message.objects.get(role="assistant")))
    assert announced(events) == [f"scripted cannot be reached; {SPARE} answers instead"]
    assert (run.status, answer.content) == ("completed", "From the spare.")
    assert (answer.metadata["model"], answer.metadata["requested_model"]) == (SPARE, "scripted")
    assert spare.requests[0]["model"] == SPARE


async def test_a_dead_address_is_stood_in_for(spare, turns, settings):
    settings.LLM_BASE_URL = _dead_address()

    async with running():
        events = await turns.say("Hello")

    assert announced(events) == [f"scripted cannot be reached; {SPARE} answers instead"]
    assert (await db(Run.objects.get)).status == "completed"


async def test_the_next_turn_does_not_wait_for_it_again(spare, runner, turns, scripted):
    """PRV-02: for thirty seconds it goes directly to the one that serves, and says so."""
    scripted.script(scripts.key_echoed())
    await turns.say("Hello")
    asked = len(scripted.requests)

    events = await turns.say("Again")

    assert (asked, len(scripted.requests), len(spare.requests)) == (1, 1, 2)
    assert announced(events) == [f"scripted cannot be reached; {SPARE} answers instead"]


async def test_after_any_output_nobody_stands_in(spare, runner, turns, scripted):
    scripted.script(scripts.disconnect("half of it"))

    events = await turns.say("Hello")

    run, answer = await db(lambda: (Run.objects.get(), Message.objects.get(role="assistant")))
    assert (run.status, answer.content, announced(events), spare.requests) == (
        "failed",
        "half of it",
        [],
        [],
    )


async def test_a_refused_request_is_not_asked_of_another(spare, runner, turns, scripted):
    scripted.script(scripts.Script(status=400, body='{"error": {"message": "no", "type": "bad"}}'))

    await turns.say("Hello")

    assert ((await db(Run.objects.get)).error["code"], spare.requests) == ("request_refused", [])


async def test_the_switch_turns_it_off(spare, turns, scripted, settings, transactional_db):
    """PRV-01."""
    settings.LLM_FALLBACK_ENABLED = False
    scripted.script(scripts.key_echoed())

    async with running():
        await turns.say("Hello")

    assert ((await db(Run.objects.get)).error["code"], spare.requests) == ("key_rejected", [])


async def test_when_all_fail_the_first_failure_is_told(spare, runner, turns, scripted):
    scripted.script(scripts.key_echoed())
    spare.script(scripts.html(503), scripts.html(503))

    await turns.say("Hello")

    error = (await db(Run.objects.get)).error
    assert error["code"] == "key_rejected"
    assert error["message"].endswith("(2 models were tried)")


async def test_between_rounds_the_stand_in_goes_on_with_the_results(with_note, spare, turns, scripted):
    """RUN-33: every call has its result, whoever asked for it."""
    scripted.script(scripts.tool_calls(("note", "{}")), scripts.key_echoed())
    spare.script(scripts.tool_calls(("note", "{}")), scripts.answer("Done."))

    events = await turns.say("Note it twice")

    roles = [message["role"] for message in spare.requests[1]["messages"]]
    calls = await db(lambda: list(ModelCall.objects.order_by("call_index").values_list("model", flat=True)))
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert calls == ["scripted", "scripted", SPARE, SPARE]
    assert len(announced(events)) == 1
    assert (await db(lambda: Message.objects.last())).content == "Done."


async def test_a_stand_in_that_cannot_call_tools_is_offered_none(with_note, spare, turns, scripted):
    """PRV-09, PRV-20: what is bound is what was charged."""
    await db(lambda: ModelRecord.objects.create(model_id=SPARE, tools=False))
    scripted.script(scripts.key_echoed())

    await turns.say("Hello")

    allocation = (await db(Run.objects.get)).allocation
    keys = [grant["key"] for grant in allocation["grants"]]
    assert ("tools" in scripted.requests[0], "tools" in spare.requests[0]) == (True, False)
    assert "tools" not in keys


async def test_a_stand_in_with_a_smaller_window_gets_a_smaller_request(
    spare, runner, turns, scripted, settings
):
    """CTX-36: and its own limit for the answer."""
    settings.CONTEXT_WINDOW_TOKENS = 0
    settings.SAFETY_RESERVE_TOKENS = 100
    record = {"max_input_tokens": 4_000, "max_output_tokens": 300}
    await db(lambda: ModelRecord.objects.create(model_id=SPARE, **record))
    for _ in range(4):
        await turns.say("word " * 1_500)
    scripted.script(scripts.key_echoed())

    await turns.say("and now?")

    run = await db(lambda: Run.objects.order_by("created_at").last())
    sent = spare.requests[0]
    assert (run.status, run.allocation["window"], sent["max_tokens"]) == ("completed", 4_000, 300)
    assert len(json.dumps(sent["messages"])) / 4 < 4_000
    assert len(json.dumps(scripted.requests[-1]["messages"])) / 4 > 4_000


async def test_the_epoch_outlives_a_stand_in(spare, runner, turns, scripted):
    """What the first model's provider has cached serves again once it is back."""
    await turns.say("one")
    scripted.script(scripts.key_echoed())
    await turns.say("two")
    route_health._failed.clear()

    await turns.say("three")

    before, after = scripted.requests[0]["messages"], scripted.requests[-1]["messages"]
    epochs = await db(ContextEpoch.objects.count)
    runs = await db(lambda: list(Run.objects.order_by("created_at")))
    assert (after[: len(before)], epochs) == (before, 1)
    assert [run.allocation["predicted_cached"] is None for run in runs] == [True, True, True]


async def test_what_a_stand_in_saw_can_be_made_again(with_note, spare, turns, scripted):
    scripted.script(scripts.key_echoed())
    spare.script(scripts.tool_calls(("note", "{}")), scripts.answer("ok"))
    await turns.say("Hello")

    body = await db(lambda: run_context(run=Run.objects.get(), request=True))

    assert body.request.rebuilt == "identical", body.request.reason


async def test_what_is_learned_of_a_stand_in_is_its_own(spare, runner, turns, scripted):
    scripted.script(scripts.key_echoed())
    spare.script(scripts.overflow(window=5_000, prompt_tokens=9_000), scripts.answer("ok"))

    await turns.say("word " * 1_000)

    records = await db(lambda: dict(ModelRecord.objects.values_list("model_id", "learned_window")))
    assert (records.get("scripted"), records[SPARE]) == (None, 5_000)


async def test_a_stop_while_waiting_for_the_first_ends_the_turn(spare, runner, turns, scripted):
    scripted.script(scripts.rate_limited(times=5))

    await stop_at("status", turns, await turns.submit("Hello"), phase="rate_limited")

    assert ((await db(Run.objects.get)).status, spare.requests) == ("cancelled", [])
