"""What every implementation of the model seam sends for calls, media, tools and marks: the exact JSON."""

from __future__ import annotations

import json

import pytest

from agentx.llm.messages import (
    AssistantMessage,
    AudioPart,
    ImagePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSchema,
    UserMessage,
)

QUESTION = (UserMessage("Well?"),)


async def collect(model, messages=QUESTION) -> None:
    """Send a request and read its answer to the end."""
    async for _ in model.stream(messages=messages, max_output_tokens=500):
        pass


async def test_calls_results_media_and_tools_are_sent_exactly_as_given(model, scripted):
    arguments = '{ "at":"the sea",  "n": 1.0 }'  # its bytes are the model's own: spaces and all
    messages = (
        UserMessage(
            "Look.",
            (
                TextPart("A file."),
                ImagePart(url="data:image/png;base64,AAAA", media_type="image/png"),
                AudioPart(url="data:audio/mpeg;base64,BBBB", media_type="audio/mpeg"),
                AudioPart(url="https://example.org/a.wav"),
            ),
        ),
        AssistantMessage("", (ToolCall("call_1", "look", arguments), ToolCall("call_2", "look", "{}"))),
        ToolMessage("waves", tool_call_id="call_1", name="look"),
        ToolMessage("", tool_call_id="call_2", name="look"),
        AssistantMessage("I saw", (ToolCall("call_3", "look", "{}"),)),
        ToolMessage("sand", tool_call_id="call_3"),
        UserMessage("", (TextPart("And?"),)),
    )
    schema = {"type": "object", "properties": {"n": {"type": "number"}, "at": {"type": "string"}}}
    tools = [
        ToolSchema(name="look", description="Looks.", parameters=schema),
        ToolSchema("hear", "Hears.", {}),
    ]

    async for _ in model.stream(messages=messages, max_output_tokens=500, tools=tools):
        pass

    def call(number: int, arguments: str) -> dict:
        return {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "look", "arguments": arguments},
        }

    (request,) = scripted.requests
    assert request["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look."},
                {"type": "text", "text": "A file."},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "mp3"}},
                {"type": "audio_url", "audio_url": {"url": "https://example.org/a.wav"}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [call(1, arguments), call(2, "{}")]},
        {"role": "tool", "content": "waves", "tool_call_id": "call_1"},
        {"role": "tool", "content": "", "tool_call_id": "call_2"},
        {"role": "assistant", "content": "I saw", "tool_calls": [call(3, "{}")]},
        {"role": "tool", "content": "sand", "tool_call_id": "call_3"},
        {"role": "user", "content": [{"type": "text", "text": "And?"}]},
    ]
    assert request["tools"] == [
        {
            "type": "function",
            "function": {"name": "look", "description": "Looks.", "parameters": schema},
        },
        {"type": "function", "function": {"name": "hear", "description": "Hears.", "parameters": {}}},
    ]
    assert json.dumps(request["tools"][0]["function"]["parameters"]) == json.dumps(schema)  # in order
    assert (request["max_tokens"], request["stream"]) == (500, True)


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"at": oops', '{"unreadable": "{\\"at\\": oops"}'),
        ("[1]", '{"unreadable": "[1]"}'),
        ("", "{}"),
        (" ", "{}"),
        ('{"at":"é"}', '{"at":"é"}'),
    ],
)
async def test_arguments_that_are_no_object_are_wrapped_since_servers_parse_them(
    model, scripted, written, sent
):
    messages = (
        *QUESTION,
        AssistantMessage("", (ToolCall("call_1", "look", written),)),
        ToolMessage("error", tool_call_id="call_1"),
    )

    await collect(model, messages)

    assert scripted.requests[0]["messages"][1]["tool_calls"][0]["function"]["arguments"] == sent


async def test_without_tools_the_request_does_not_speak_of_any(model, scripted):
    await collect(model)

    assert "tools" not in scripted.requests[0]


async def test_ctx_30_breakpoints_mark_the_last_part_of_their_messages_and_nothing_else(model, scripted):
    """CTX-30: as gateways for Anthropic's models take them."""
    messages = (
        SystemMessage("Be brief."),
        UserMessage("One?", (TextPart("file"), ImagePart(url="data:,"))),
        AssistantMessage("", (ToolCall("call_1", "look", "{}"),)),
        ToolMessage("waves", tool_call_id="call_1"),
        UserMessage("Two?"),
    )

    stream = model.stream(messages=messages, max_output_tokens=500, cache_breakpoints=(0, 1, 2))
    async for _ in stream:
        pass

    mark = {"cache_control": {"type": "ephemeral"}}
    sent = scripted.requests[0]["messages"]
    assert sent[0]["content"] == [{"type": "text", "text": "Be brief.", **mark}]
    assert sent[1]["content"] == [
        {"type": "text", "text": "One?"},
        {"type": "text", "text": "file"},
        {"type": "image_url", "image_url": {"url": "data:,"}, **mark},
    ]
    assert sent[2]["content"] is None
    assert (sent[3]["content"], sent[4]["content"]) == ("waves", "Two?")


async def test_ctx_30_without_breakpoints_nothing_is_marked(model, scripted):
    """CTX-30."""
    await collect(model, (SystemMessage("Be brief."), *QUESTION))

    assert "cache_control" not in json.dumps(scripted.requests)


async def test_two_requests_share_every_byte_that_their_messages_share(model, scripted):
    """INV-5, on the wire: what a provider's cache compares."""
    call = ToolCall("call_1", "look", '{"b":1, "a":2}')
    first = (
        SystemMessage("Be brief."),
        UserMessage("One?"),
        AssistantMessage("", (call,)),
        ToolMessage("waves", tool_call_id="call_1"),
    )
    tools = [ToolSchema("look", "Looks.", {"type": "object"})]
    for messages in (first, (*first, AssistantMessage("Waves."), UserMessage("Two?"))):
        async for _ in model.stream(messages=messages, max_output_tokens=5, tools=tools):
            pass

    before, after = scripted.requests
    assert json.dumps(after["messages"]).startswith(json.dumps(before["messages"])[:-1])
    assert json.dumps(after["tools"]) == json.dumps(before["tools"])


@pytest.mark.parametrize("limit", [16, 4_096])
async def test_ctx_36_the_response_reserve_is_sent_as_the_answers_limit(model, scripted, limit):
    """CTX-36."""
    async for _ in model.stream(messages=QUESTION, max_output_tokens=limit):
        pass

    assert scripted.requests[0]["max_tokens"] == limit
