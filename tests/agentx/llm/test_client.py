"""The model seam against a real server: what a provider can send, and the error that each fault becomes."""

from __future__ import annotations

import asyncio

import pytest

from agentx import errors
from agentx.llm.client import MAX_OUTPUT_CHARACTERS, ChatModelSettings, LangchainChatModel, with_stall_watch
from agentx.llm.messages import (
    AssistantMessage,
    ContentDelta,
    Finish,
    ReasoningDelta,
    SystemMessage,
    UsageReport,
    UserMessage,
)
from tests.scripted_model import ScriptedModel

KEY = "sk-canary-0123456789"


@pytest.fixture(scope="module")
def server():
    with ScriptedModel() as running:
        yield running


@pytest.fixture
async def model(server):
    server.reset()
    made = LangchainChatModel(
        ChatModelSettings(
            base_url=server.base_url, api_key=KEY, model="scripted", connect_timeout=2, read_timeout=2
        )
    )
    yield made
    await made.aclose()


async def _collect(model, *, stall: float = 5.0):
    stream = model.stream(messages=(UserMessage("hello"),), max_output_tokens=64)
    return [item async for item in with_stall_watch(stream, seconds=stall)]


def _text(items) -> str:
    return "".join(item.text for item in items if isinstance(item, ContentDelta))


def _thought(items) -> str:
    return "".join(item.text for item in items if isinstance(item, ReasoningDelta))


async def test_a_plain_answer_ends_with_usage_and_finish(server, model):
    server.script(text="one two three")

    items = await _collect(model)

    assert _text(items) == "one two three"
    assert items[-2:] == [UsageReport(5, 2, 3, None), Finish("stop")]


async def test_the_request_carries_roles_texts_and_the_output_limit(server, model):
    messages = (SystemMessage("be brief"), UserMessage("a"), AssistantMessage("b"), UserMessage("c"))

    async for _ in model.stream(messages=messages, max_output_tokens=77):
        pass

    body = server.requests[0]
    assert [(m["role"], m["content"]) for m in body["messages"]] == [
        ("system", "be brief"),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]
    assert (body["max_tokens"], body["stream"], body["stream_options"]) == (77, True, {"include_usage": True})


async def test_run_10_reasoning_comes_apart_from_the_answer(server, model):
    server.script(reasoning="let me see ", text="it is 4")

    items = await _collect(model)

    assert (_thought(items), _text(items)) == ("let me see ", "it is 4")


async def test_run_10_inline_think_blocks_come_apart_too(server, model):
    server.script(text="<think>let me see</think> it is 4")

    items = await _collect(model)

    assert (_thought(items), _text(items)) == ("let me see", "it is 4")


async def test_a_missing_usage_report_is_not_invented(server, model):
    server.script(text="hi", usage=False)

    items = await _collect(model)

    assert not any(isinstance(item, UsageReport) for item in items)


async def test_p21_length_is_reported_as_the_finish_reason(server, model):
    server.script(text="cut off", finish="length")

    assert (await _collect(model))[-1] == Finish("length")


@pytest.mark.parametrize(
    ("script", "error", "started"),
    [
        ({"kind": "no-finish", "text": "half"}, errors.StreamBroken, True),
        ({"kind": "disconnect", "tokens": 3}, errors.StreamBroken, True),
        ({"kind": "malformed", "tokens": 3}, errors.MalformedStream, True),
        ({"kind": "bad-utf8", "tokens": 3}, errors.MalformedStream, True),
        ({"kind": "stream-error", "tokens": 3}, errors.ProviderFailed, True),
        ({"kind": "endless"}, errors.StreamBroken, True),
        ({"kind": "reject-key"}, errors.KeyRejected, False),
        ({"kind": "rate-limit"}, errors.RateLimited, False),
        ({"kind": "html", "status": 502}, errors.ProviderFailed, False),
        ({"kind": "html", "status": 200}, errors.NotAnEndpoint, False),
        ({"kind": "redirect"}, errors.NotAnEndpoint, False),
        ({"kind": "status", "status": 404}, errors.NotAnEndpoint, False),
        ({"kind": "status", "status": 422}, errors.RequestRefused, False),
        ({"kind": "silence"}, errors.ProviderUnreachable, False),
    ],
    ids=lambda value: value["kind"] + str(value.get("status", "")) if isinstance(value, dict) else None,
)
async def test_every_fault_becomes_one_error_of_ours(server, model, script, error, started):
    server.script(**script)

    with pytest.raises(errors.ModelError) as failed:
        await _collect(model)

    assert type(failed.value) is error
    assert failed.value.output_started is started


async def test_b_18_the_provider_cannot_leak_a_key_through_an_error(server, model):
    server.script(kind="reject-key")

    with pytest.raises(errors.KeyRejected) as failed:
        await _collect(model)

    assert KEY not in f"{failed.value!s}{failed.value.details}"


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("", None), ("soon", None)])
async def test_run_21_retry_after_is_read_when_it_is_a_number(server, model, header, seconds):
    server.script(kind="rate-limit", retry_after=header)

    with pytest.raises(errors.RateLimited) as failed:
        await _collect(model)

    assert failed.value.retry_after == seconds


@pytest.mark.parametrize("dialect", ["overflow", "overflow-llama"])
async def test_overflow_tells_window_and_prompt_in_both_dialects(server, model, dialect):
    server.script(kind=dialect, window=4096)

    with pytest.raises(errors.ContextOverflow) as failed:
        await _collect(model)

    assert failed.value.details == {"window": 4096, "prompt_tokens": 5000}


async def test_nobody_listening_is_unreachable():
    model = LangchainChatModel(
        ChatModelSettings("http://127.0.0.1:9/v1", "", "x", connect_timeout=1, read_timeout=1)
    )

    with pytest.raises(errors.ProviderUnreachable):
        await _collect(model)


@pytest.mark.parametrize("kind", ["stall", "keepalive"])
async def test_run_24_silence_after_text_is_a_stall_even_with_comments(server, model, kind):
    server.script(kind=kind, tokens=3)

    with pytest.raises(errors.ModelStalled) as failed:
        await _collect(model, stall=0.3)

    assert failed.value.output_started


async def test_unstorable_characters_are_replaced(server, model):
    server.script(kind="unstorable", tokens=0)

    assert _text(await _collect(model)) == "a\ufffdb\ufffdc"


async def test_an_endless_answer_is_cut_at_the_limit(server, model):
    server.script(kind="endless", tokens=0)
    received = 0

    with pytest.raises(errors.StreamBroken):
        async for item in model.stream(messages=(UserMessage("x"),), max_output_tokens=9):
            received += len(getattr(item, "text", ""))

    assert received <= MAX_OUTPUT_CHARACTERS


async def test_leaving_the_stream_closes_the_connection(server, model):
    server.script(kind="stall", tokens=1)
    stream = model.stream(messages=(UserMessage("x"),), max_output_tokens=9)
    await anext(stream)

    await stream.aclose()

    for _ in range(100):
        if server.disconnects:
            break
        await asyncio.sleep(0.02)
    assert server.disconnects == 1


async def test_proxies_of_the_environment_are_ignored(server, model, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server.script(text="direct")

    assert _text(await _collect(model)) == "direct"
