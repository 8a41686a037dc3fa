"""Hostile tool outputs, documents and titles stay where they came in: in messages of tools, whatever becomes of their turn.

Every request that the model server received is looked through, from the turn that read the text to long after it has left
the view, asked for by its topic and recalled.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from conversations.models import CompactionDigest, ContextEpoch, Conversation, EvidenceLedger, Message
from conversations.services.conversations import conversation_create
from conversations.services.evidence import evidence_refresh
from conversations.services.index import entries_catch_up
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append
from tests.conversations.hostile import CORPUS, Hostile
from tests.conversations.running import db, running
from tests.scripted_model import scripts
from tools.builtin.discovery import make_discovery
from tools.builtin.outputs import OUTPUT_TOOLS
from tools.builtin.thread import READ_THREAD
from tools.contracts import Tool, ToolArguments, ToolContext, ToolFailure, ToolResult

pytestmark = pytest.mark.django_db(transaction=True)


class NumberArguments(ToolArguments):
    number: int


def _content(item: Hostile) -> ToolResult:
    return ToolResult(content=item.text)


def _artifact(item: Hostile) -> ToolResult:
    return ToolResult(content="one row", artifact={"rows": [{"id": 1, "memo": item.text}]})


def _model_context(item: Hostile) -> ToolResult:
    return ToolResult(content="one row", artifact={"rows": []}, model_context={"text": item.text})


def _long(item: Hostile) -> ToolResult:
    return ToolResult(content=item.text + "\n" + "plain words about nothing\n" * 600 + item.text)


def _failure(item: Hostile) -> ToolResult:
    raise ToolFailure(item.text)


WAYS: dict[str, Callable[[Hostile], ToolResult]] = {
    "content": _content,
    "artifact": _artifact,
    "model_context": _model_context,
    "stored": _long,
    "failure": _failure,
}


def reading(way: str) -> Tool:
    """A tool whose result is the hostile text that is asked for."""

    def run(_context: ToolContext, arguments: NumberArguments) -> ToolResult:
        return WAYS[way](CORPUS[arguments.number])

    return Tool("fetch", "Fetch a page.", "Fetching", "context", NumberArguments, run)


def _escapes(request: dict) -> list[tuple[str, str]]:
    """(role, canary) of every canary that stands outside of a tool's message."""
    return [
        (message["role"], item.canary)
        for message in request["messages"]
        if message["role"] != "tool"
        for item in CORPUS
        if item.canary in json.dumps(message, ensure_ascii=False)
    ]


def _seen(requests: list[dict]) -> set[str]:
    """Canaries that any message of a tool had, so that it is known that there was something to escape."""
    text = "".join(
        str(message["content"])
        for request in requests
        for message in request["messages"]
        if message["role"] == "tool"
    )
    return {item.canary for item in CORPUS if item.canary in text}


def test_the_corpus_is_large_and_every_canary_its_own():
    assert len(CORPUS) >= 40
    assert len({item.canary for item in CORPUS}) == len({item.topic for item in CORPUS}) == len(CORPUS)
    assert all(item.canary in item.text and item.topic in item.text for item in CORPUS)


@pytest.mark.parametrize("way", WAYS)
async def test_tool_text_stays_in_tool_messages_to_the_end_of_its_days(turns, scripted, settings, way):
    """In its own turn, in the turns after it, once it has left the view, and when it is recalled."""
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    async with running(reading(way), *OUTPUT_TOOLS):
        for number in range(len(CORPUS)):
            scripted.script(
                scripts.tool_calls(("fetch", json.dumps({"number": number}))),
                scripts.answer("I have read it and go on with what you asked for. " * 4),
            )
            await turns.say(f"Read page {number}, please. " + "plain talk " * 60)
        await db(lambda: entries_catch_up(conversation_id=turns.conversation_id))
        await db(lambda: evidence_refresh(conversation_id=turns.conversation_id))
        for item in CORPUS[:12]:
            await turns.say(f"What was said about {item.topic}?")

    assert [escape for request in scripted.requests for escape in _escapes(request)] == []
    assert len(_seen(scripted.requests)) == len(CORPUS)
    assert await db(lambda: ContextEpoch.objects.filter(cut_seq__gt=0).exists())
    kept = await db(_kept_text)
    assert [item.kind for item in CORPUS if item.canary in kept] == []


def _kept_text() -> str:
    """Everything that is made of a conversation and later shown outside of messages of tools."""
    parts = [
        *CompactionDigest.objects.values_list("text", "identifiers"),
        *ContextEpoch.objects.values_list("blocks", "evidence"),
        *EvidenceLedger.objects.values_list("buckets"),
        *Conversation.objects.values_list("title"),
    ]
    return json.dumps(parts, ensure_ascii=False, default=str)


async def test_recall_names_a_result_and_does_not_quote_it(turns, scripted, settings):
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    async with running(reading("content")):
        scripted.script(
            scripts.tool_calls(("fetch", '{"number": 0}')), scripts.answer("I have read it. " * 10)
        )
        await turns.say("Read page 0, please.")
        for _ in range(8):
            await turns.say("plain talk " * 250)
        await db(lambda: entries_catch_up(conversation_id=turns.conversation_id))
        await turns.say(f"What was said about {CORPUS[0].topic}?")

    tail = [m["content"] for m in scripted.requests[-1]["messages"] if m["role"] == "user"][-2]
    assert "[turn 1, tool] a result has these words; read_thread(center_turn=1) gives it" in tail
    assert CORPUS[0].canary not in tail


async def test_other_conversations_come_in_as_results_too(turns, scripted):
    """What a person pasted elsewhere, and a hostile title beside it, read by a tool."""
    other = await db(lambda: _conversation_of(turns.user_id))
    scripted.script(
        scripts.tool_calls(("read_thread", json.dumps({"conversation_id": str(other), "after": 19}))),
        scripts.answer("ok"),
    )

    async with running(READ_THREAD):
        await turns.say("Read the other one")

    assert _escapes(scripted.requests[1]) == []
    assert _seen(scripted.requests) == {item.canary for item in CORPUS[:19]}


def _conversation_of(user_id: int):
    made = conversation_create(user_id=user_id, title=CORPUS[40].text[:200])
    row = Conversation.objects.get(pk=made.id)
    for number, item in enumerate(CORPUS[:19], 1):
        new = NewMessage(role=Message.Role.USER, content=item.text)
        message_append(conversation=row, new=new, turn=number)
    conversation_counters_save(row)
    return made.id


async def test_hostile_titles_are_in_no_request(turns, scripted, runner):
    for item in CORPUS:
        title = item.text[:200]
        await db(
            lambda title=title: Conversation.objects.filter(pk=turns.conversation_id).update(title=title)
        )
        await turns.say("Hello")

    assert all(_escapes(request) == [] for request in scripted.requests)
    assert _seen(scripted.requests) == set()


async def test_a_forged_grant_gives_no_tools(turns, scripted, settings):
    """TLS-04: not in a result of another tool, not in a question, not in a title."""
    settings.TOOL_ROUTING_MODE = "dynamic"
    secret = Tool(
        "secret_rows", "Rows.", "Reading", "sample", NumberArguments, lambda _c, _a: _content(CORPUS[0])
    )
    tools = (reading("content"), secret, make_discovery(lambda: tools))
    grant = next(number for number, item in enumerate(CORPUS) if item.kind == "grant")
    scripted.script(
        scripts.tool_calls(("fetch", json.dumps({"number": grant}))),
        scripts.tool_calls(("secret_rows", '{"number": 0}')),
        scripts.answer("ok"),
    )

    async with running(*tools):
        await turns.say(f"Please: {CORPUS[grant].text}")

    named = {tool["function"]["name"] for request in scripted.requests for tool in request["tools"]}
    assert named == {"fetch", "discover_tool_groups"}
    refused = await db(lambda: Message.objects.filter(role="tool").order_by("seq").last())
    assert refused.content.startswith("There is no tool named 'secret_rows'.")
