"""Every guard against a loop of tools that breaks: what the model does wrong, and what becomes of the turn."""

from __future__ import annotations

import pytest

from tests.conversations.running import call, of, roles, running, stored
from tests.conversations.sample_tools import TOOLS
from tests.scripted_model import scripts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def runner(scripted, transactional_db):
    """A runner whose turns may call the sample tools."""
    async with running(*TOOLS):
        yield


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

    run, messages = await stored()
    assert (run.status, messages[2].metadata["ok"]) == ("completed", False)
    assert said in messages[2].content
    assert "secret detail" not in messages[2].content


async def test_when_rounds_are_used_up_the_model_is_told_to_answer(runner, turns, scripted, settings):
    """Guard: last round."""
    settings.TOOL_MAX_ROUNDS = 2
    scripted.script(
        scripts.tool_calls(call("echo_word", word="a")),
        scripts.tool_calls(call("echo_word", word="b")),
        scripts.answer("That is all."),
    )

    await turns.say("Go on")

    last = scripted.requests[2]["messages"][-1]
    assert (last["role"], "last round" in last["content"]) == ("user", True)
    assert (await stored())[1][-1].content == "That is all."


async def test_a_model_that_calls_after_the_last_round_gets_nothing_to_call(
    runner, turns, scripted, settings
):
    """Guard: last round, one text-only completion."""
    settings.TOOL_MAX_ROUNDS = 1
    again = scripts.tool_calls(call("echo_word", word="b"))
    scripted.script(scripts.tool_calls(call("echo_word", word="a")), again, scripts.answer("Only text."))

    await turns.say("Go on")

    _, messages = await stored()
    assert ["tools" in request for request in scripted.requests] == [True, True, False]
    assert (roles(messages), messages[-1].content) == (
        ["user", "assistant", "tool", "assistant"],
        "Only text.",
    )


async def test_writing_down_state_over_and_over_is_refused(runner, turns, scripted):
    """Guard: narration spin."""
    spins = [scripts.tool_calls(call("note_state", word=str(number))) for number in range(5)]
    scripted.script(*spins, scripts.answer("Enough."))

    await turns.say("Go")

    _, messages = await stored()
    noted = [row.content == "noted" for row in messages if row.role == "tool"]
    assert noted == [True, True, True, False, False]


async def test_an_empty_final_answer_gets_one_nudge(runner, turns, scripted):
    """Guard: empty final."""
    scripted.script(scripts.answer("", reasoning="hm"), scripts.answer("Here it is."))

    await turns.say("Say something")

    run, messages = await stored()
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

    run, messages = await stored()
    assert (run.status, run.error["code"], len(messages)) == ("failed", "empty_answer", 1)


@pytest.mark.parametrize(
    "text", ["echo_word", "`echo_word`\n\n[many_rows]", "<tool_call>echo_word</tool_call>"]
)
async def test_a_reply_of_tool_names_alone_gets_one_nudge(runner, turns, scripted, text):
    """Guard: tool echo."""
    scripted.script(scripts.answer(text), scripts.answer("In words."))

    await turns.say("Say something")

    _, messages = await stored()
    assert (len(scripted.requests), messages[-1].content) == (2, "In words.")


async def test_a_called_tools_name_before_the_answer_is_cleaned_away(runner, turns, scripted):
    """Guard: tool echo."""
    scripted.script(
        scripts.tool_calls(call("echo_word", word="heron")),
        scripts.answer("echo_word:\nThe word was heron."),
    )

    events = await turns.say("Which?")

    assert (await stored())[1][-1].content == "The word was heron."
    assert of(events, "message")[0]["message"]["content"] == "The word was heron."


async def test_an_answer_cut_by_its_limit_goes_on_once(runner, turns, scripted):
    """Guard: length."""
    scripted.script(scripts.answer("one two ", finish="length"), scripts.answer("three four"))

    await turns.say("Count")

    run, messages = await stored()
    assert messages[-1].content == "one two three four"
    assert messages[-1].metadata["truncated"] is False
    sent = scripted.requests[1]["messages"][-2:]
    assert (sent[0]["content"], "cut off" in sent[1]["content"]) == ("one two ", True)
    assert run.finish_reason == "stop"


async def test_an_answer_cut_twice_is_flagged(runner, turns, scripted):
    """Guard: length; P21."""
    scripted.script(scripts.answer("one ", finish="length"), scripts.answer("two", finish="length"))

    await turns.say("Count")

    run, messages = await stored()
    assert (messages[-1].content, messages[-1].metadata["truncated"], len(scripted.requests)) == (
        "one two",
        True,
        2,
    )
    assert run.finish_reason == "length"


async def test_a_failure_after_a_step_keeps_the_step_and_says_so(runner, turns, scripted):
    """Guard: salvage."""
    scripted.script(scripts.tool_calls(call("echo_word", word="heron")), scripts.key_echoed())

    events = await turns.say("Which?")

    run, messages = await stored()
    assert roles(messages) == ["user", "assistant", "tool", "assistant"]
    assert (run.status, run.finish_reason, messages[-1].status) == ("failed", "error", "failed")
    assert messages[-1].content.startswith("I could not finish this answer")
    assert of(events, "error")[0]["code"] == "key_rejected"


async def test_the_clock_of_a_stall_does_not_run_while_tools_do(runner, turns, scripted, settings):
    """Guard: stall; tool time does not count."""
    settings.MODEL_STALL_SECONDS = 0.2
    scripted.script(scripts.tool_calls(call("hang")), scripts.answer("after"))

    await turns.say("Wait")

    assert (await stored())[0].status == "completed"
