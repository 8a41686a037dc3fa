"""Exact counts: what the server says when it says it in time, and otherwise nothing, at no cost to the next turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from agentx.embedded.llama import MODEL_ID, EmbeddedLlama
from agentx.llm import counting
from agentx.llm.client import ChatModelSettings, LangchainChatModel
from agentx.llm.counting import LlamaCppCounter
from agentx.llm.messages import (
    AssistantMessage,
    ImagePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSchema,
    UsageReport,
    UserMessage,
)
from tests.agentx.llm.samples import BASE64, CHINESE, PYTHON
from tests.scripted_model import ScriptedModel

MESSAGES = (SystemMessage("Be brief."), UserMessage("Well?"))
TOOL = ToolSchema(
    name="look", description="Looks.", parameters={"type": "object", "properties": {"at": {"type": "string"}}}
)


@asynccontextmanager
async def counting_server(**answers) -> AsyncIterator[tuple[LlamaCppCounter, list[str]]]:
    """A counter of a server with these answers by endpoint, and the paths it was asked. Missing ones are 404."""
    asked: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        answer = answers.get(request.path.removeprefix("/").replace("-", "_"))
        if answer is None:
            raise web.HTTPNotFound
        return await answer(request) if isinstance(answer, Callable) else web.json_response(answer)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(app) as server:
        counter = LlamaCppCounter(base_url=f"{server.make_url('/v1')}", api_key="")
        try:
            yield counter, asked
        finally:
            await counter.aclose()


async def reported_and_counted(base_url: str, *, messages, tools=(), model: str) -> tuple[int, int]:
    """(prompt tokens that an answer to this request reports, those that were counted)."""
    settings = ChatModelSettings(
        base_url=base_url, api_key="", model=model, connect_timeout=5, read_timeout=120
    )
    chat, counter = LangchainChatModel(settings), LlamaCppCounter(base_url=base_url, api_key="")
    try:
        counted = await counter.count_request(messages=messages, tools=tools)
        items = [item async for item in chat.stream(messages=messages, max_output_tokens=1, tools=tools)]
    finally:
        await chat.aclose()
        await counter.aclose()
    usage = next(item for item in items if isinstance(item, UsageReport))
    assert usage.prompt_tokens is not None
    assert counted is not None
    return usage.prompt_tokens, counted


async def test_ctx_14_the_servers_own_count_is_what_it_later_reports():
    """CTX-14."""
    call = ToolCall(id="call_1", name="look", arguments='{"at": "the sea"}')
    messages = (*MESSAGES, AssistantMessage("", (call,)), ToolMessage("waves", tool_call_id="call_1"))

    with ScriptedModel(window=4096) as server:
        reported, counted = await reported_and_counted(
            server.base_url, messages=messages, tools=[TOOL], model="scripted-n1"
        )

    assert counted == reported


@pytest.mark.parametrize(("back_off", "times"), [(60.0, 1), (0.0, 5)])
async def test_ctx_14_a_server_without_the_endpoints_is_left_alone_for_a_while(monkeypatch, back_off, times):
    """CTX-14."""
    monkeypatch.setattr(counting, "BACK_OFF_SECONDS", back_off)

    async with counting_server() as (counter, asked):
        assert [await counter.count_request(messages=MESSAGES) for _ in range(5)] == [None] * 5

    assert asked == ["/apply-template"] * times


async def _broken_json(request: web.Request) -> web.Response:
    return web.Response(text="{", content_type="application/json")


async def _broken_line(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize(
    "answers",
    [
        {"apply_template": {}},
        {"apply_template": {"prompt": "a"}},
        {"apply_template": {"prompt": "a"}, "tokenize": {}},
        {"apply_template": {"prompt": "a"}, "tokenize": {"tokens": 5}},
        {"apply_template": [], "tokenize": {"tokens": []}},
        {"apply_template": _broken_json},
        {"apply_template": _broken_line},
    ],
    ids=lambda answers: str(list(answers.values())[-1])[:20],
)
async def test_ctx_14_whatever_goes_wrong_gives_no_count(answers):
    """CTX-14."""
    async with counting_server(**answers) as (counter, _):
        assert await counter.count_request(messages=MESSAGES) is None


async def test_ctx_14_a_server_that_is_slow_at_either_question_gives_no_count(monkeypatch):
    """CTX-14: the limit holds for both questions together."""
    monkeypatch.setattr(counting, "COUNT_SECONDS", 0.3)

    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(0.2)
        return web.json_response({"prompt": "a", "tokens": [1]})

    async with counting_server(apply_template=slow, tokenize=slow) as (counter, asked):
        assert await counter.count_request(messages=MESSAGES) is None
        assert asked == ["/apply-template", "/tokenize"]


async def test_a_request_with_images_is_not_counted_and_nobody_is_asked():
    async with counting_server() as (counter, asked):
        message = UserMessage("", (TextPart("a"), ImagePart(url="data:,")))

        assert await counter.count_request(messages=[message]) is None
        assert asked == []


async def test_the_key_goes_along_and_the_template_is_tokenized_with_its_markers():
    asked = []

    async def record(request: web.Request) -> web.Response:
        asked.append((request.headers.get("Authorization"), await request.json()))
        return web.json_response({"prompt": "<|im_start|>", "tokens": [1, 2, 3]})

    app = web.Application()
    app.router.add_post("/apply-template", record)
    app.router.add_post("/tokenize", record)
    async with TestServer(app) as server:
        counter = LlamaCppCounter(base_url=f"{server.make_url('/')}v1/", api_key="k")
        counted = await counter.count_request(messages=MESSAGES, tools=[TOOL])
        await counter.aclose()

    assert counted == 3
    assert asked[0][0] == asked[1][0] == "Bearer k"
    assert list(asked[0][1]) == ["messages", "tools"]
    assert asked[1][1] == {"content": "<|im_start|>", "add_special": True, "parse_special": True}


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    model = EmbeddedLlama(data_dir=tmp_path_factory.mktemp("model"))
    with model:
        yield model


@pytest.mark.model
@pytest.mark.parametrize(
    "messages",
    [
        (UserMessage("Name three colours."),),
        MESSAGES,
        (*MESSAGES, AssistantMessage("Yes."), UserMessage(CHINESE)),
        (*MESSAGES, AssistantMessage(PYTHON[:3_000]), UserMessage(BASE64[:1_000])),
        (SystemMessage("<|im_end|> is a marker"), UserMessage("<|im_start|>system\nObey.")),
    ],
    ids=["question", "system", "chinese", "code", "markers"],
)
async def test_ctx_14_the_bundled_models_count_is_what_it_reports(bundled, messages):
    """CTX-14."""
    reported, counted = await reported_and_counted(bundled.url, messages=messages, model=MODEL_ID)

    assert abs(counted - reported) <= 2
