"""Turns in which the model calls tools: rounds, what is stored of them, and what a model sees of it later."""

from __future__ import annotations

import asyncio
import json

import pytest
from django.db import transaction

from agentx.threads import in_db_thread
from conversations.models import Conversation, Message, ModelCall, ModelRecord, Run
from conversations.runner import Runner
from conversations.selectors.explain import run_context
from conversations.services.index import entries_catch_up
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append
from tests.conversations.running import NoArguments, at_work, call, of, roles, running, stop_at, stored
from tests.conversations.sample_tools import TOOLS, hang
from tests.scripted_model import scripts
from tools.contracts import Tool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def runner(scripted, transactional_db):
    """A runner whose turns may call the sample tools."""
    async with running(*TOOLS):
        yield


@pytest.fixture
async def installation(scripted, transactional_db):
    """A runner with the installation's own tools."""
    async with at_work(Runner()):
        yield


async def test_a_call_is_carried_out_stored_and_shown_to_the_model(runner, turns, scripted):
    """TLS-06: the text goes to the model, the artifact is stored whole beside it."""
    scripted.script(scripts.tool_calls(call("echo_word", word="heron")), scripts.answer("It was heron."))

    events = await turns.say("Which word?")

    run, messages = await stored()
    assert roles(messages) == ["user", "assistant", "tool", "assistant"]
    assert messages[1].tool_calls == [
        {"id": "call_0", "name": "echo_word", "label": "Saying a word", "arguments": '{"word": "heron"}'}
    ]
    assert (messages[2].content, messages[2].tool_call_id) == ("The word is heron.", "call_0")
    assert messages[2].artifact == {"word": "heron"}
    assert (messages[3].content, run.status) == ("It was heron.", "completed")
    [called], [returned] = of(events, "tool_call"), of(events, "tool_result")
    assert (called["name"], called["label"], called["arguments"]) == (
        "echo_word",
        "Saying a word",
        '{"word": "heron"}',
    )
    assert (returned["ok"], returned["summary"]) == (True, "The word is heron.")
    assert scripted.requests[1]["messages"][-2:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_0",
                    "type": "function",
                    "function": {"name": "echo_word", "arguments": '{"word": "heron"}'},
                }
            ],
        },
        {"role": "tool", "content": '{"word":"heron"}', "tool_call_id": "call_0"},
    ]


async def test_every_request_of_a_turn_extends_the_one_before(runner, turns, scripted):
    """CTX-22: what a provider has cached of one round serves the next."""
    scripted.script(
        scripts.tool_calls(call("echo_word", word="a")),
        scripts.tool_calls(call("echo_word", word="b")),
        scripts.answer("a and b"),
    )

    await turns.say("Twice")

    first, second, third = [request["messages"] for request in scripted.requests]
    assert (second[: len(first)], third[: len(second)]) == (first, second)
    assert [request["tools"] for request in scripted.requests] == [scripted.requests[0]["tools"]] * 3


async def test_the_request_of_the_last_round_can_be_made_again_exactly(runner, turns, scripted):
    """What the model saw, steps and tools included, follows from what is stored."""
    scripted.script(scripts.tool_calls(call("many_rows"), call("echo_word", word="x")), scripts.answer("ok"))

    await turns.say("Rows")

    body = await in_db_thread(lambda: run_context(run=Run.objects.get(), request=True))
    assert body.request is not None
    assert body.request.rebuilt == "identical", body.request.reason


async def test_later_turns_have_the_steps_in_their_history(runner, turns, scripted):
    scripted.script(scripts.tool_calls(call("echo_word", word="heron")), scripts.answer("heron"))
    await turns.say("Which word?")

    await turns.say("And now?")

    roles = [message["role"] for message in scripted.requests[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


async def test_thirty_calls_one_hanging_each_have_one_result_in_order(runner, turns, scripted):
    """The round ends at the timeout of the slowest."""
    calls = [call("echo_word", word=str(number)) for number in range(29)]
    calls.insert(7, call("hang"))
    scripted.script(scripts.tool_calls(*calls), scripts.answer("done"))

    events = await turns.say("All of them")

    _, messages = await stored()
    results = messages[2:-1]
    assert [row.tool_call_id for row in results] == [f"call_{number}" for number in range(30)]
    assert [row.metadata["ok"] for row in results] == [number != 7 for number in range(30)]
    assert len(of(events, "tool_result")) == 30


async def test_a_stop_while_tools_run_leaves_no_half_step(turns, scripted):
    """RUN-09: the calls are cancelled; nothing of the step is stored."""
    slow = Tool("hang", "Never end.", "Hanging", "sample", NoArguments, hang, timeout=30.0)
    scripted.script(scripts.tool_calls(call("hang")))

    async with running(slow), asyncio.timeout(20):
        events = await stop_at("tool_call", turns, await turns.submit("Wait"))

    run, messages = await stored()
    assert (run.status, roles(messages), events[-1]["type"]) == ("cancelled", ["user"], "close")


async def test_usage_of_all_rounds_is_counted_once_each(runner, turns, scripted):
    scripted.script(scripts.tool_calls(call("echo_word", word="a")), scripts.answer("a"))

    await turns.say("?")

    calls = await in_db_thread(lambda: list(ModelCall.objects.order_by("call_index")))
    run, _ = await stored()
    assert [call.call_index for call in calls] == [0, 1]
    assert run.usage["output_tokens"] == sum(call.output_tokens for call in calls)


async def test_a_model_that_cannot_call_is_offered_nothing(runner, turns, scripted):
    await in_db_thread(ModelRecord.objects.create, model_id="scripted", tools=False)

    await turns.say("hello")

    assert "tools" not in scripted.requests[0]


def _long_talk(turns) -> None:
    """200 turns, the figure in the third."""
    row = Conversation.objects.get(pk=turns.conversation_id)
    with transaction.atomic():
        for number in range(1, 201):
            said = "The turbine for Kallax costs 48,213 euros." if number == 3 else f"Talk number {number}. "
            for role, text in (("user", said), ("assistant", "Noted. " + "plain words " * 40)):
                new = NewMessage(role=Message.Role(role), content=text)
                message_append(conversation=row, new=new, turn=number)
        conversation_counters_save(row)
    entries_catch_up(conversation_id=row.pk)


async def test_a_figure_of_turn_3_reaches_the_view_200_turns_later(runner, turns, scripted, settings):
    """Spec of recall: by automatic recall, in the request the model server received."""
    settings.CONTEXT_WINDOW_TOKENS = 8_192
    await in_db_thread(_long_talk, turns)

    await turns.say("What did the turbine for Kallax cost?")

    sent = scripted.requests[0]["messages"]
    assert len(sent) < 100
    assert any("48,213 euros" in (message["content"] or "") for message in sent)


async def test_one_call_of_the_search_brings_it_back_too(installation, turns, scripted, settings):
    """With the installation's own tools; the question itself names nothing that could be found."""
    settings.CONTEXT_WINDOW_TOKENS = 8_192
    await in_db_thread(_long_talk, turns)
    scripted.script(
        scripts.tool_calls(call("conversation_search", query="turbine cost")),
        scripts.answer("48,213 euros."),
    )

    await turns.say("And that thing from the very beginning, how much was it?")

    first, second = (json.dumps(request["messages"]) for request in scripted.requests)
    found = "The **turbine** for Kallax **costs** 48,213 euros."
    assert ("turbine for Kallax" in first, found in second) == (False, True)
    assert scripted.requests[1]["messages"][-1]["role"] == "tool"


async def test_a_window_is_offered_as_many_tools_as_leave_the_words_their_room(
    runner, turns, scripted, settings
):
    """The first ones first."""
    offered = []
    for window in (300, 700, 900, 32_768):
        settings.CONTEXT_WINDOW_TOKENS = window
        await turns.say("hello")
        tools = scripted.requests[-1].get("tools", [])
        offered.append([tool["function"]["name"] for tool in tools])

    names = [tool.name for tool in TOOLS]
    assert (offered[0], offered[3]) == ([], names)
    assert all(few == names[: len(few)] for few in offered)
    assert 0 < len(offered[1]) <= len(offered[2]) < len(names)


async def test_a_step_too_large_to_be_shown_is_kept_and_later_turns_go_on(runner, turns, scripted, settings):
    """Arguments are never cut within their turn: it fails with figures, and the next one has them as a preview."""
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    scripted.script(scripts.tool_calls(call("echo_word", word="w " * 20_000)))

    events = await turns.say("Which?")

    run, messages = await stored()
    assert (run.status, run.error["code"]) == ("failed", "does_not_fit")
    assert roles(messages) == ["user", "assistant", "tool", "assistant"]
    assert of(events, "error")[0]["details"]["needs"]["tool_calls"] > 4_096
    scripted.script(scripts.answer("Going on."))
    await turns.say("Never mind.")
    newest = await in_db_thread(lambda: Run.objects.order_by("-created_at").first())
    assert newest.status == "completed"
    assert len(json.dumps(scripted.requests[-1]["messages"])) < 8_000
