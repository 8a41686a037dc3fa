"""What every implementation of the model seam does with a well-behaved server, and with one that is not."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from agentx.errors import (
    ModelStalled,
    StreamBroken,
)
from agentx.llm.client import ChatModelSettings, FastChatModel, LangchainChatModel, with_stall_watch
from agentx.llm.messages import (
    AssistantMessage,
    ContentDelta,
    Finish,
    Heartbeat,
    SystemMessage,
    ToolCall,
    ToolCalls,
    ToolSchema,
    UsageReport,
    UserMessage,
)
from tests.agentx.llm.conftest import KEY
from tests.agentx.llm.streamed import QUESTION, collect, fail, reasoning_of, text_of
from tests.scripted_model import Script, scripts


async def test_an_answer_comes_token_by_token_then_usage_then_finish(model, scripted):
    scripted.script(
        replace(scripts.answer("It is four."), usage={"prompt_tokens": 9, "completion_tokens": 3})
    )

    items = await collect(model)

    assert items == [
        ContentDelta("It "),
        ContentDelta("is "),
        ContentDelta("four."),
        UsageReport(prompt_tokens=9, cached_tokens=None, output_tokens=3, reasoning_tokens=None),
        Finish("stop"),
    ]


async def test_the_request_says_exactly_what_was_given(model, scripted):
    messages = (
        SystemMessage("Be brief."),
        UserMessage("One?"),
        AssistantMessage("Yes."),
        UserMessage("Two?"),
    )

    await collect(model, messages)

    assert scripted.requests == [
        {
            "model": "scripted",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "One?"},
                {"role": "assistant", "content": "Yes."},
                {"role": "user", "content": "Two?"},
            ],
            "max_tokens": 500,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]
    assert scripted.request_headers[0]["Authorization"] == f"Bearer {KEY}"


async def test_usage_that_the_provider_does_not_report_is_not_made_up(model, scripted):
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    scripted.script(scripts.then("Yes", ("chunk", end), ("raw", "data: [DONE]\n\n")))

    assert await collect(model) == [ContentDelta("Yes"), Finish("stop")]


async def test_usage_in_every_chunk_is_a_running_total_not_a_sum(model, scripted):
    usage = {"prompt_tokens": 7, "completion_tokens": 1}
    running = ("chunk", {"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": usage})
    final = {"prompt_tokens": 7, "completion_tokens": 2}
    scripted.script(Script([running, running, ("finish", "stop")], usage=final))

    items = await collect(model)

    assert items[-2] == UsageReport(
        prompt_tokens=7, cached_tokens=None, output_tokens=2, reasoning_tokens=None
    )


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_fields_come_apart_from_the_answer(model, scripted, field):
    scripted.script(scripts.answer("Four.", reasoning="Two and two. ", field_name=field))

    items = await collect(model)

    assert reasoning_of(items) == "Two and two. "
    assert text_of(items) == "Four."


async def test_reasoning_in_both_fields_at_once_comes_once(model, scripted):
    scripted.script(
        Script([("delta", {"reasoning": "hm", "reasoning_content": "hm"}), *scripts.answer("Four.").steps])
    )

    assert reasoning_of(await collect(model)) == "hm"


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
async def test_think_tags_cut_anywhere_come_apart_from_the_answer(model, scripted, piece):
    scripted.script(scripts.inline_thinking(thought="Two and two.", text="\n\nFour < five.", piece=piece))

    items = await collect(model)

    assert (reasoning_of(items), text_of(items)) == ("Two and two.", "Four < five.")


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_p21_the_finish_reason_is_reported_as_it_is(model, scripted, reason):
    scripted.script(scripts.answer("Cut", finish=reason))

    assert (await collect(model))[-1] == Finish(reason)


async def test_a_finish_reason_in_a_chunk_without_delta_counts(model, scripted):
    end = {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}
    scripted.script(scripts.then("Yes", ("chunk", end)))

    assert await collect(model) == [ContentDelta("Yes"), Finish("stop")]


async def test_a_finish_reason_is_enough_without_the_done_line(model, scripted):
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    scripted.script(scripts.then("Yes", ("chunk", end)))

    assert await collect(model) == [ContentDelta("Yes"), Finish("stop")]


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_connection_lost_behind_the_end_of_an_answer_is_no_failure(model, scripted, how):
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    scripted.script(scripts.then("Yes", ("chunk", end), ("raw", "data: [DONE]\n\n"), ("drop", how)))

    assert await collect(model) == [ContentDelta("Yes"), Finish("stop")]


async def test_an_empty_answer_is_a_finish_without_text(model, scripted):
    scripted.script(scripts.answer(""))

    items = await collect(model)

    assert [type(item) for item in items] == [UsageReport, Finish]


async def test_a_chunk_without_text_is_a_sign_of_life(model, scripted):
    scripted.script(Script([("chunk", {}), ("delta", {"role": "assistant"}), ("finish", "stop")]))

    items = [item async for item in model.stream(messages=QUESTION, max_output_tokens=5)]

    assert items[:2] == [Heartbeat(), Heartbeat()]


async def test_text_that_cannot_be_stored_is_replaced(model, scripted):
    scripted.script(Script([("delta", {"content": "a\x00b\ud800c"}), ("finish", "stop")]))

    assert text_of(await collect(model)) == "a\ufffdb\ufffdc"


async def test_text_in_any_script_arrives_unchanged(model, scripted):
    text = "Grüße, 世界! Привет, \U0001f30d.\r\n\tEnd\u2028."
    scripted.script(scripts.answer(text))

    assert text_of(await collect(model)) == text


async def test_one_huge_delta_arrives_whole(model, scripted):
    scripted.script(Script([("delta", {"content": "x" * 1_500_000}), ("finish", "stop")]))

    assert len(text_of(await collect(model))) == 1_500_000


async def test_an_endless_answer_is_cut_off(connect, scripted):
    scripted.script(Script([("endless", "and so on ")]))

    items, error = await fail(connect(max_output_characters=1000))

    assert type(error) is StreamBroken
    assert error.output_started
    assert len(text_of(items)) == 1000
    await asyncio.to_thread(scripted.wait_until, lambda server: server.disconnects == 1)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (scripts.stall("a b c "), "a b c "),
        (scripts.stall(), ""),
        (Script(silent=True), ""),
        (scripts.then("a b c ", ("comments", 0.02)), "a b c "),
    ],
    ids=["after output", "after headers", "before headers", "comments only"],
)
async def test_silence_stalls_and_frees_the_connection(model, scripted, script, text):
    scripted.script(script)
    items = []

    with pytest.raises(ModelStalled) as caught:
        async for batch in with_stall_watch(
            model.batches(messages=QUESTION, max_output_tokens=5), seconds=0.8
        ):
            items.extend(batch)

    assert text_of(items) == text
    assert caught.value.output_started == bool(text)
    assert caught.value.details == {"seconds": 0.8}
    await asyncio.to_thread(scripted.wait_until, lambda server: (server.disconnects, server.live) == (1, 0))


async def test_chunks_without_text_keep_a_slow_model_alive(model, scripted):
    beat = (("wait", 0.25), ("chunk", {}))
    scripted.script(Script([*beat * 5, *scripts.answer("late").steps]))

    batches = with_stall_watch(model.batches(messages=QUESTION, max_output_tokens=5), seconds=1.0)
    items = [item async for batch in batches for item in batch]

    assert text_of(items) == "late"


async def test_the_stall_watch_does_not_count_the_time_its_reader_takes(model, scripted):
    scripted.script(scripts.answer("a b c"))
    items = []

    async for batch in with_stall_watch(model.batches(messages=QUESTION, max_output_tokens=5), seconds=0.6):
        items.extend(batch)
        if len(items) == 1:
            await asyncio.sleep(0.9)

    assert text_of(items) == "a b c"


async def test_a_cancellation_from_outside_is_not_taken_for_a_stall(model, scripted):
    scripted.script(scripts.stall("a b c "))

    async def read() -> None:
        async for _ in with_stall_watch(model.batches(messages=QUESTION, max_output_tokens=5), seconds=30):
            pass

    task = asyncio.create_task(read())
    await asyncio.to_thread(scripted.wait_until, lambda server: server.live == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await asyncio.to_thread(scripted.wait_until, lambda server: (server.disconnects, server.live) == (1, 0))


async def test_cancelling_the_reader_closes_the_connection(model, scripted):
    scripted.script(scripts.stall("a b c "))
    task = asyncio.create_task(collect(model))
    await asyncio.to_thread(scripted.wait_until, lambda server: server.live == 1)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await asyncio.to_thread(scripted.wait_until, lambda server: (server.disconnects, server.live) == (1, 0))


async def test_closing_the_stream_early_closes_the_connection(model, scripted):
    scripted.script(Script([("endless", "on ")], tokens_per_second=200))

    async with aclosing(
        with_stall_watch(model.batches(messages=QUESTION, max_output_tokens=5), seconds=5)
    ) as stream:
        first = await anext(stream)

    assert list(first) == [ContentDelta("on ")]
    await asyncio.to_thread(scripted.wait_until, lambda server: (server.disconnects, server.live) == (1, 0))


async def test_connections_of_stopped_answers_are_given_back(connect, scripted):
    model = connect(max_connections=4)
    for _ in range(12):
        scripted.script(scripts.stall("a b c "))
        async with aclosing(model.stream(messages=QUESTION, max_output_tokens=5)) as stream:
            assert await anext(stream) == ContentDelta("a ")

    scripted.script(scripts.answer("free"))

    assert text_of(await collect(model)) == "free"


async def test_many_streams_at_once_do_not_mix(connect, scripted):
    model = connect(model="scripted-echo")
    questions = [f"question {number} of many" for number in range(40)]

    answers = await asyncio.gather(*(collect(model, (UserMessage(text),)) for text in questions))

    assert [text_of(items) for items in answers] == [f"user: {text}" for text in questions]


async def test_proxies_in_the_environment_are_not_used(connect, scripted, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "OPENAI_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert text_of(await collect(connect(model="scripted-n2"))) == scripts.word_text(2)


def test_settings_do_not_show_the_key():
    settings = ChatModelSettings(base_url="", api_key=KEY, model="m", connect_timeout=1, read_timeout=1)

    assert KEY not in repr(settings)


async def test_calls_come_whole_before_usage_and_finish(model, scripted):
    scripted.script(scripts.tool_calls(("first", '{"x": 1}'), ("second", "not json"), piece=3))

    items = await collect(model)

    assert items[0] == ToolCalls(
        (ToolCall("call_0", "first", '{"x": 1}'), ToolCall("call_1", "second", "not json"))
    )
    assert items[-1] == Finish("tool_calls")
    assert [type(item) for item in items] == [ToolCalls, UsageReport, Finish]


async def test_calls_that_break_off_count_as_output(model, scripted):
    whole = scripts.tool_calls(("first", '{"x": 1}'))
    scripted.script(replace(whole, steps=[*whole.steps[:-1], ("drop", "close")]))

    items, error = await fail(model)

    assert (items, error.output_started) == ([], True)
    assert isinstance(error, StreamBroken)


@pytest.mark.parametrize("last", [(), (("raw", "data: [DONE]\n\n"),)], ids=["end", "done"])
async def test_p21_calls_without_a_finish_reason_are_not_carried_out(model, scripted, last):
    whole = scripts.tool_calls(("first", '{"x": 1}'))
    scripted.script(replace(whole, steps=[*whole.steps[:-1], *last]))

    items, error = await fail(model)

    assert (items, type(error), error.output_started) == ([], StreamBroken, True)


async def test_both_ways_to_read_send_one_request(scripted):
    settings = ChatModelSettings(
        base_url=scripted.base_url, api_key=KEY, model="scripted", connect_timeout=2.0, read_timeout=5.0
    )
    tools = (ToolSchema("look", "Looks.", {"type": "object", "properties": {}}),)
    for kind in (LangchainChatModel, FastChatModel):
        client = kind(settings)
        async for _ in client.stream(messages=QUESTION, max_output_tokens=5, tools=tools):
            pass
        await client.aclose()

    slow, fast = scripted.requests
    assert slow == fast
    names = ("Host", "Authorization", "Content-Type", "Content-Length")
    headers = [{name: sent[name] for name in names} for sent in scripted.request_headers]
    assert headers[0] == headers[1]
    assert headers[0]["Authorization"] == f"Bearer {KEY}"


async def test_the_connection_of_a_finished_answer_serves_the_next(connect, scripted):
    client = connect(max_connections=1)

    for number in range(3):
        scripted.script(scripts.answer(f"answer {number}"))
        assert text_of(await collect(client)) == f"answer {number}"
