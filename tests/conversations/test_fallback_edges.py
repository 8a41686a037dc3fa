"""What is easily got wrong once another model answers: its own limits, its own failures, and what people see of it."""

from __future__ import annotations

import pytest

from agentx.model_routes import route_health
from conversations.models import Message, Run
from tests.conversations.running import announced, db, running
from tests.scripted_model import ScriptedModel, scripts

# The scripted server answers to names that begin so.
SPARE, LAST = "scripted-n4", "scripted-n6"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def small_server():
    """A server of one model that says how small its window is."""
    with ScriptedModel(window=4_000) as running:
        yield running


@pytest.fixture(scope="module")
def last_server():
    with ScriptedModel() as running:
        yield running


@pytest.fixture
def small(small_server, scripted):
    small_server.reset()
    route_health._failed.clear()
    yield small_server
    route_health._failed.clear()


@pytest.fixture
def last(last_server):
    last_server.reset()
    return last_server


def _phases(events: list[dict]) -> list[str]:
    return [event["data"]["phase"] for event in events if event["type"] == "status"]


async def test_the_same_model_at_another_endpoint_gets_what_that_endpoint_takes(
    small, turns, scripted, settings
):
    """PRV-09: limits are an endpoint's, and a name is no proof that they are the same."""
    settings.CONTEXT_WINDOW_TOKENS = 0
    settings.SAFETY_RESERVE_TOKENS = 100
    settings.RESPONSE_RESERVE_TOKENS = 300
    settings.LLM_FALLBACKS = [f"scripted@{small.base_url}"]
    async with running():
        for _ in range(4):
            await turns.say("word " * 1_500)
        scripted.script(scripts.key_echoed())
        events = await turns.say("and now?")

    run = await db(Run.objects.order_by("created_at").last)
    [label] = announced(events)
    host = small.base_url.removeprefix("http://").removesuffix("/v1")
    assert (run.status, run.allocation["window"]) == ("completed", 4_000)
    assert label == f"scripted cannot be reached; scripted at {host} answers instead"


async def test_a_stand_in_too_small_for_the_question_is_passed_over(small, last, turns, scripted, settings):
    settings.CONTEXT_WINDOW_TOKENS = 0
    settings.LLM_FALLBACKS = [f"{SPARE}@{small.base_url}", f"{LAST}@{last.base_url}"]
    async with running():
        scripted.script(scripts.key_echoed())
        events = await turns.say("word " * 6_000)

    run, answer = await db(lambda: (Run.objects.get(), Message.objects.last()))
    assert (run.status, answer.metadata["model"], small.requests) == ("completed", LAST, [])
    assert _phases(events).count("model_fallback") == 2


async def test_where_only_too_small_ones_are_left_the_first_failure_is_told(small, turns, scripted, settings):
    """Who reads it can bring the first model back; that another one's window is small is no news to act on."""
    settings.CONTEXT_WINDOW_TOKENS = 0
    settings.LLM_FALLBACKS = [f"{SPARE}@{small.base_url}"]
    async with running():
        scripted.script(scripts.key_echoed())
        await turns.say("word " * 6_000)

    error = (await db(Run.objects.get)).error
    assert (error["code"], error["message"].endswith("(2 models were tried)")) == ("key_rejected", True)


async def test_a_failure_in_an_answer_is_told_as_itself(small, last, turns, scripted, settings):
    """However many did not serve before."""
    settings.LLM_FALLBACKS = [f"{SPARE}@{small.base_url}", f"{LAST}@{last.base_url}"]
    async with running():
        scripted.script(scripts.key_echoed())
        small.script(scripts.key_echoed())
        last.script(scripts.disconnect("half of it"))
        await turns.say("Hello")

    run, answer = await db(lambda: (Run.objects.get(), Message.objects.last()))
    assert (run.error["code"], answer.content) == ("stream_broken", "half of it")


async def test_the_announcement_stands_until_there_is_something_newer(small, turns, scripted, settings):
    """PRV-04: the page shows the newest status, so that nothing may cover this one at once."""
    settings.LLM_FALLBACKS = [f"{SPARE}@{small.base_url}"]
    async with running():
        scripted.script(scripts.key_echoed())
        events = await turns.say("Hello")

    assert _phases(events) == ["composing", "model_fallback"]


async def test_the_asked_model_is_asked_again_when_its_stand_in_fails(small, turns, scripted, settings):
    """PRV-02: known to be unhealthy it comes last, not never."""
    settings.LLM_FALLBACKS = [f"{SPARE}@{small.base_url}"]
    async with running():
        scripted.script(scripts.key_echoed())
        await turns.say("Hello")
        small.script(scripts.key_echoed())
        events = await turns.say("Again")

    answer = await db(Message.objects.last)
    assert announced(events) == [
        f"scripted cannot be reached; {SPARE} answers instead",
        f"{SPARE} cannot be reached; scripted answers instead",
    ]
    assert (answer.metadata["model"], "requested_model" in answer.metadata) == ("scripted", False)


async def test_when_all_fail_the_asked_model_s_failure_is_told_whatever_the_order(
    small, turns, scripted, settings
):
    settings.LLM_FALLBACKS = [f"{SPARE}@{small.base_url}"]
    async with running():
        scripted.script(scripts.key_echoed())
        await turns.say("Hello")
        small.script(scripts.html(404))
        scripted.script(scripts.key_echoed())
        await turns.say("Again")

    error = (await db(Run.objects.order_by("created_at").last)).error
    assert (error["code"], error["message"].endswith("(2 models were tried)")) == ("key_rejected", True)
