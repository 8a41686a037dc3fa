"""Turns in which the model calls tools: rounds, what is stored of them, and every guard against a loop that breaks."""

from __future__ import annotations

import asyncio
import json

import pytest
from django.db import transaction

from agentx.threads import in_db_thread
from conversations.models import Conversation, Message, ModelCall, Run
from conversations.runner import Runner
from conversations.selectors.explain import run_context
from conversations.services.cancel import run_cancel
from conversations.services.index import entries_catch_up
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append
from tests.scripted_model import scripts
from tools.contracts import Tool, ToolArguments, ToolContext, ToolResult

pytestmark = pytest.mark.django_db(transaction=True)


class WordArguments(ToolArguments):
    word: str = ""


class NoArguments(ToolArguments):
    pass


async def _hang(_context: ToolContext, _arguments: NoArguments) -> ToolResult:
    await asyncio.sleep(60)
    return ToolResult(content="never")


def _echo(_context: ToolContext, arguments: WordArguments) -> ToolResult:
    return ToolResult(content=f"The word is {arguments.word}.", artifact={"word": arguments.word})


def _fail(_context: ToolContext, _arguments: NoArguments) -> ToolResult:
    raise RuntimeError("secret detail")


def _note(_context: ToolContext, _arguments: WordArguments) -> ToolResult:
    return ToolResult(content="noted")


def _rows(_context: ToolContext, _arguments: NoArguments) -> ToolResult:
    rows = [{"id": number, "memo": "m" * 200} for number in range(200)]
    return ToolResult(content=json.dumps(rows), artifact={"rows": rows})


TOOLS = (
    Tool("echo_word", "Say a word again.", "Saying a word", "sample", WordArguments, _echo),
    Tool("hang", "Never end.", "Hanging", "sample", NoArguments, _hang, timeout=0.3),
    Tool("fail", "Break.", "Breaking", "sample", NoArguments, _fail),
    Tool("note_state", "Write something down.", "Writing it down", "state", WordArguments, _note),
    Tool("many_rows", "Give many rows.", "Reading rows", "sample", NoArguments, _rows),
)


@pytest.fixture
async def runner(scripted, transactional_db):
    """A runner whose turns may call the tools above."""
    made = Runner(tools=TOOLS)
    task = asyncio.create_task(made.run())
    yield made
    made.stop()
    await asyncio.wait_for(task, 20)


def _call(name: str, **arguments: object) -> tuple[str, str]:
    return name, json.dumps(arguments)


def _of(events: list[dict], kind: str) -> list[dict]:
    return [event["data"] for event in events if event["type"] == kind and "seq" in event]


async def _stored() -> tuple[Run, list[Message]]:
    return await in_db_thread(lambda: (Run.objects.get(), list(Message.objects.order_by("seq"))))


def _roles(messages: list[Message]) -> list[str]:
    return [row.role for row in messages]


async def test_a_call_is_carried_out_stored_and_shown_to_the_model(runner, turns, scripted):
    """TLS-06: the text goes to the model, the artifact is stored whole beside it."""
    scripted.script(scripts.tool_calls(_call("echo_word", word="heron")), scripts.answer("It was heron."))

    events = await turns.say("Which word?")

    run, messages = await _stored()
    assert _roles(messages) == ["user", "assistant", "tool", "assistant"]
    assert messages[1].tool_calls == [
        {"id": "call_0", "name": "echo_word", "label": "Saying a word", "arguments": '{"word": "heron"}'}
    ]
    assert (messages[2].content, messages[2].tool_call_id) == ("The word is heron.", "call_0")
    assert messages[2].artifact == {"word": "heron"}
    assert (messages[3].content, run.status) == ("It was heron.", "completed")
    [called], [returned] = _of(events, "tool_call"), _of(events, "tool_result")
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
        scripts.tool_calls(_call("echo_word", word="a")),
        scripts.tool_calls(_call("echo_word", word="b")),
        scripts.answer("a and b"),
    )

    await turns.say("Twice")

    first, second, third = [request["messages"] for request in scripted.requests]
    assert (second[: len(first)], third[: len(second)]) == (first, second)
    assert [request["tools"] for request in scripted.requests] == [scripted.requests[0]["tools"]] * 3


async def test_the_request_of_the_last_round_can_be_made_again_exactly(runner, turns, scripted):
    """What the model saw, steps and tools included, follows from what is stored."""
    scripted.script(
        scripts.tool_calls(_call("many_rows"), _call("echo_word", word="x")), scripts.answer("ok")
    )

    await turns.say("Rows")

    body = await in_db_thread(lambda: run_context(run=Run.objects.get(), request=True))
    assert body.request is not None
    assert body.request.rebuilt == "identical", body.request.reason


async def test_later_turns_have_the_steps_in_their_history(runner, turns, scripted):
    scripted.script(scripts.tool_calls(_call("echo_word", word="heron")), scripts.answer("heron"))
    await turns.say("Which word?")

    await turns.say("And now?")

    roles = [message["role"] for message in scripted.requests[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


async def test_thirty_calls_one_hanging_each_have_one_result_in_order(runner, turns, scripted):
    """The round ends at the timeout of the slowest."""
    calls = [_call("echo_word", word=str(number)) for number in range(29)]
    calls.insert(7, _call("hang"))
    scripted.script(scripts.tool_calls(*calls), scripts.answer("done"))

    events = await turns.say("All of them")

    _, messages = await _stored()
    results = messages[2:-1]
    assert [row.tool_call_id for row in results] == [f"call_{number}" for number in range(30)]
    assert [row.metadata["ok"] for row in results] == [number != 7 for number in range(30)]
    assert len(_of(events, "tool_result")) == 30


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("no_such_tool", "{}"), "no_such_tool"),
        (("echo_word", "{not json"), "JSON"),
        (("echo_word", '{"word": ["a"]}'), "word"),
        (("echo_word", '{"words": "a"}'), "words"),
        (("fail", "{}"), "RuntimeError"),
    ],
    ids=["unknown", "not json", "wrong type", "wrong name", "crash"],
)
async def test_a_bad_call_becomes_a_result_the_model_can_read(runner, turns, scripted, call, said):
    """Guard: bad tool call."""
    scripted.script(scripts.tool_calls(call), scripts.answer("I see."))

    await turns.say("Try")

    run, messages = await _stored()
    assert (run.status, messages[2].metadata["ok"]) == ("completed", False)
    assert said in messages[2].content
    assert "secret detail" not in messages[2].content


async def test_when_rounds_are_used_up_the_model_is_told_to_answer(runner, turns, scripted, settings):
    """Guard: last round."""
    settings.TOOL_MAX_ROUNDS = 2
    scripted.script(
        scripts.tool_calls(_call("echo_word", word="a")),
        scripts.tool_calls(_call("echo_word", word="b")),
        scripts.answer("That is all."),
    )

    await turns.say("Go on")

    last = scripted.requests[2]["messages"][-1]
    assert (last["role"], "last round" in last["content"]) == ("user", True)
    assert (await _stored())[1][-1].content == "That is all."


async def test_a_model_that_calls_after_the_last_round_gets_nothing_to_call(
    runner, turns, scripted, settings
):
    """Guard: last round, one text-only completion."""
    settings.TOOL_MAX_ROUNDS = 1
    again = scripts.tool_calls(_call("echo_word", word="b"))
    scripted.script(scripts.tool_calls(_call("echo_word", word="a")), again, scripts.answer("Only text."))

    await turns.say("Go on")

    _, messages = await _stored()
    assert ["tools" in request for request in scripted.requests] == [True, True, False]
    assert (_roles(messages), messages[-1].content) == (
        ["user", "assistant", "tool", "assistant"],
        "Only text.",
    )


async def test_writing_down_state_over_and_over_is_refused(runner, turns, scripted):
    """Guard: narration spin."""
    spins = [scripts.tool_calls(_call("note_state", word=str(number))) for number in range(5)]
    scripted.script(*spins, scripts.answer("Enough."))

    await turns.say("Go")

    _, messages = await _stored()
    noted = [row.content == "noted" for row in messages if row.role == "tool"]
    assert noted == [True, True, True, False, False]


async def test_an_empty_final_answer_gets_one_nudge(runner, turns, scripted):
    """Guard: empty final."""
    scripted.script(scripts.answer("", reasoning="hm"), scripts.answer("Here it is."))

    await turns.say("Say something")

    run, messages = await _stored()
    assert scripted.requests[1]["messages"][-1]["content"].startswith(
        "[AgentX] Your last reply had no visible text"
    )
    assert (run.status, [row.content for row in messages]) == (
        "completed",
        ["Say something", "Here it is."],
    )


async def test_an_answer_that_stays_empty_is_an_honest_error(runner, turns, scripted):
    """Guard: empty final; never an empty bubble."""
    scripted.script(scripts.answer(""), scripts.answer("  "))

    await turns.say("Say something")

    run, messages = await _stored()
    assert (run.status, run.error["code"], len(messages)) == ("failed", "empty_answer", 1)


@pytest.mark.parametrize(
    "text", ["echo_word", "`echo_word`\n\n[many_rows]", "<tool_call>echo_word</tool_call>"]
)
async def test_a_reply_of_tool_names_alone_gets_one_nudge(runner, turns, scripted, text):
    """Guard: tool echo."""
    scripted.script(scripts.answer(text), scripts.answer("In words."))

    await turns.say("Say something")

    _, messages = await _stored()
    assert (len(scripted.requests), messages[-1].content) == (2, "In words.")


async def test_a_called_tools_name_before_the_answer_is_cleaned_away(runner, turns, scripted):
    """Guard: tool echo."""
    scripted.script(
        scripts.tool_calls(_call("echo_word", word="heron")),
        scripts.answer("echo_word:\nThe word was heron."),
    )

    events = await turns.say("Which?")

    assert (await _stored())[1][-1].content == "The word was heron."
    assert _of(events, "message")[0]["message"]["content"] == "The word was heron."


async def test_an_answer_cut_by_its_limit_goes_on_once(runner, turns, scripted):
    """Guard: length."""
    scripted.script(scripts.answer("one two ", finish="length"), scripts.answer("three four"))

    await turns.say("Count")

    run, messages = await _stored()
    assert messages[-1].content == "one two three four"
    assert messages[-1].metadata["truncated"] is False
    sent = scripted.requests[1]["messages"][-2:]
    assert (sent[0]["content"], "cut off" in sent[1]["content"]) == ("one two ", True)
    assert run.finish_reason == "stop"


async def test_an_answer_cut_twice_is_flagged(runner, turns, scripted):
    """Guard: length; P21."""
    scripted.script(scripts.answer("one ", finish="length"), scripts.answer("two", finish="length"))

    await turns.say("Count")

    run, messages = await _stored()
    assert (messages[-1].content, messages[-1].metadata["truncated"], len(scripted.requests)) == (
        "one two",
        True,
        2,
    )
    assert run.finish_reason == "length"


async def test_a_failure_after_a_step_keeps_the_step_and_says_so(runner, turns, scripted):
    """Guard: salvage."""
    scripted.script(scripts.tool_calls(_call("echo_word", word="heron")), scripts.key_echoed())

    events = await turns.say("Which?")

    run, messages = await _stored()
    assert _roles(messages) == ["user", "assistant", "tool", "assistant"]
    assert (run.status, run.finish_reason, messages[-1].status) == ("failed", "error", "failed")
    assert messages[-1].content.startswith("I could not finish this answer")
    assert _of(events, "error")[0]["code"] == "key_rejected"


async def test_the_clock_of_a_stall_does_not_run_while_tools_do(runner, turns, scripted, settings):
    """Guard: stall; tool time does not count."""
    settings.MODEL_STALL_SECONDS = 0.2
    scripted.script(scripts.tool_calls(_call("hang")), scripts.answer("after"))

    await turns.say("Wait")

    assert (await _stored())[0].status == "completed"


async def test_a_stop_while_tools_run_leaves_no_half_step(turns, scripted, transactional_db):
    """RUN-09: the calls are cancelled; nothing of the step is stored."""
    slow = Tool("hang", "Never end.", "Hanging", "sample", NoArguments, _hang, timeout=30.0)
    made = Runner(tools=(slow,))
    task = asyncio.create_task(made.run())
    scripted.script(scripts.tool_calls(_call("hang")))
    accepted = await turns.submit("Wait")
    events: list[dict] = []

    async def follow() -> None:
        from conversations.services.attach import run_follow

        async for item in run_follow(user_id=turns.user_id, run_id=accepted.run.id):
            events.append(json.loads(item.payload))
            if events[-1]["type"] == "tool_call":
                await in_db_thread(run_cancel, user_id=turns.user_id, run_id=accepted.run.id)

    await asyncio.wait_for(follow(), 20)
    made.stop()
    await asyncio.wait_for(task, 20)

    run, messages = await _stored()
    assert (run.status, _roles(messages), events[-1]["type"]) == ("cancelled", ["user"], "close")


async def test_usage_of_all_rounds_is_counted_once_each(runner, turns, scripted):
    scripted.script(scripts.tool_calls(_call("echo_word", word="a")), scripts.answer("a"))

    await turns.say("?")

    calls = await in_db_thread(lambda: list(ModelCall.objects.order_by("call_index")))
    run, _ = await _stored()
    assert [call.call_index for call in calls] == [0, 1]
    assert run.usage["output_tokens"] == sum(call.output_tokens for call in calls)


async def test_a_model_that_cannot_call_is_offered_nothing(runner, turns, scripted):
    from conversations.models import ModelRecord

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


async def test_one_call_of_the_search_brings_it_back_too(turns, scripted, settings, transactional_db):
    """With the installation's own tools; the question itself names nothing that could be found."""
    settings.CONTEXT_WINDOW_TOKENS = 8_192
    await in_db_thread(_long_talk, turns)
    made = Runner()
    task = asyncio.create_task(made.run())
    scripted.script(
        scripts.tool_calls(_call("conversation_search", query="turbine cost")),
        scripts.answer("48,213 euros."),
    )

    await turns.say("And that thing from the very beginning, how much was it?")
    made.stop()
    await asyncio.wait_for(task, 20)

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
    scripted.script(scripts.tool_calls(_call("echo_word", word="w " * 20_000)))

    events = await turns.say("Which?")

    run, messages = await _stored()
    assert (run.status, run.error["code"]) == ("failed", "does_not_fit")
    assert _roles(messages) == ["user", "assistant", "tool", "assistant"]
    assert _of(events, "error")[0]["details"]["needs"]["tool_calls"] > 4_096
    scripted.script(scripts.answer("Going on."))
    await turns.say("Never mind.")
    newest = await in_db_thread(lambda: Run.objects.order_by("-created_at").first())
    assert newest.status == "completed"
    assert len(json.dumps(scripted.requests[-1]["messages"])) < 8_000
