"""Turns whose tools are gated, chosen and whose long results are stored: what the model server was really sent."""

from __future__ import annotations

import json

import pytest

from agentx.accounts.models import User
from agentx.threads import in_db_thread
from conversations.models import Conversation, Message
from conversations.services.edits import messages_delete
from tests.conversations.running import NoArguments, call, db, running
from tests.scripted_model import scripts
from tools.builtin.discovery import make_discovery
from tools.builtin.outputs import OUTPUT_TOOLS
from tools.contracts import Tool, ToolContext, ToolResult
from tools.models import ToolOutput

pytestmark = pytest.mark.django_db(transaction=True)


LINES = "\n".join(f"line {number}: {'plain words ' * 4}" for number in range(1, 1001))


def _long_text(_context: ToolContext, _arguments: NoArguments) -> ToolResult:
    return ToolResult(content=LINES)


def _long_rows(_context: ToolContext, _arguments: NoArguments) -> ToolResult:
    rows = [{"id": f"row-{number}", "memo": "m" * 200} for number in range(300)]
    return ToolResult(content="300 rows", artifact={"rows": rows})


def _plain(_context: ToolContext, _arguments: NoArguments) -> ToolResult:
    return ToolResult(content="done")


LONG_TEXT = Tool("long_text", "Give a long text.", "Reading", "context", NoArguments, _long_text)
LONG_ROWS = Tool("long_rows", "Give many rows.", "Reading", "context", NoArguments, _long_rows)
LEDGER = Tool("ledger_rows", "Give rows of the ledger.", "Reading", "sample", NoArguments, _plain)
ADMIN = Tool("wipe", "Wipe everything.", "Wiping", "context", NoArguments, _plain, admin_only=True)


def _named(request: dict) -> list[str]:
    return [tool["function"]["name"] for tool in request.get("tools", [])]


async def test_a_long_text_is_stored_whole_and_the_model_is_told_how_to_read_it(turns, scripted):
    """TUR-04: the message is short and names a key, under which all characters are."""
    scripted.script(
        scripts.tool_calls(call("long_text")),
        scripts.tool_calls(call("long_text")),
        scripts.answer("Read."),
    )

    async with running(LONG_TEXT, *OUTPUT_TOOLS):
        await turns.say("Read it")

    stored = await db(lambda: list(ToolOutput.objects.order_by("created_at")))
    shown = [m["content"] for m in scripted.requests[2]["messages"] if m["role"] == "tool"]
    assert [row.content for row in stored] == [LINES]
    assert [stored[0].pk in text and len(text) < 6_000 for text in shown] == [True, True]
    assert scripted.requests[2]["messages"][:3] == scripted.requests[1]["messages"][:3]


async def test_reading_a_stored_result_never_stores_it_again(turns, scripted):
    """TUR-06."""
    scripted.script(scripts.tool_calls(call("long_text")))
    async with running(LONG_TEXT, *OUTPUT_TOOLS):
        scripted.script(scripts.tool_calls(call("long_text")), scripts.answer("ok"))
        await turns.say("Read it")
        [row] = await db(lambda: list(ToolOutput.objects.all()))
        scripted.script(
            scripts.tool_calls(call("tool_output_query", id=row.pk, query="line 777")),
            scripts.answer("found"),
        )

        await turns.say("What does line 777 say?")

    last = scripted.requests[-1]["messages"][-1]
    assert (last["role"], "line 777:" in last["content"]) == ("tool", True)
    assert await db(ToolOutput.objects.count) == 1


async def test_people_keep_the_whole_artifact_and_the_model_gets_its_rows_in_brief(turns, scripted):
    """TUR-16: the message has all 300 rows; the request names every id within the limit of a result."""
    scripted.script(scripts.tool_calls(call("long_rows")), scripts.answer("ok"))

    async with running(LONG_ROWS, *OUTPUT_TOOLS):
        await turns.say("Rows")

    message = await db(lambda: Message.objects.get(role="tool"))
    sent = scripted.requests[1]["messages"][-1]["content"]
    assert len(message.artifact["rows"]) == 300
    assert len(sent) <= 12_000
    head = json.loads(sent)["stored_output"]
    assert head["id"] == (await db(ToolOutput.objects.get)).pk
    brief = json.loads(sent)["result_in_brief"]
    assert len(brief["rows"]) + brief["rows_compaction"]["omitted"] == 300


async def test_deleting_the_message_deletes_what_was_stored_of_it(turns, scripted):
    scripted.script(scripts.tool_calls(call("long_text")), scripts.answer("ok"))
    async with running(LONG_TEXT, *OUTPUT_TOOLS):
        await turns.say("Read it")
    conversation = await db(Conversation.objects.get)
    seqs = await db(lambda: list(Message.objects.values_list("seq", flat=True)))

    await in_db_thread(messages_delete, conversation_id=conversation.pk, seqs=seqs)

    assert await db(ToolOutput.objects.count) == 0


async def test_admin_tools_are_neither_offered_to_nor_carried_out_for_others(turns, scripted):
    """TLS-01, TLS-05."""
    scripted.script(scripts.tool_calls(call("wipe")), scripts.answer("no"))

    async with running(LONG_TEXT, ADMIN):
        await turns.say("Wipe")

    result = await db(lambda: Message.objects.get(role="tool"))
    assert _named(scripted.requests[0]) == ["long_text"]
    assert result.content.startswith("There is no tool named 'wipe'.")


async def test_admin_tools_are_offered_to_superusers(turns, scripted):
    """TLS-05."""
    await db(lambda: User.objects.filter(pk=turns.user_id).update(is_superuser=True))
    scripted.script(scripts.tool_calls(call("wipe")), scripts.answer("done"))

    async with running(LONG_TEXT, ADMIN):
        await turns.say("Wipe")

    assert _named(scripted.requests[0]) == ["long_text", "wipe"]
    assert (await db(lambda: Message.objects.get(role="tool"))).content == "done"


async def test_static_routing_names_the_same_tools_whatever_is_asked(turns, scripted):
    """TLS-02."""
    tools = (LONG_TEXT, LEDGER, make_discovery(lambda: tools))
    asked = ("hello", "show my transactions", "that again?", "2026")

    async with running(*tools):
        for question in asked:
            await turns.say(question)

    assert [request["tools"] for request in scripted.requests] == [scripted.requests[0]["tools"]] * 4
    assert _named(scripted.requests[0]) == ["long_text", "ledger_rows"]


async def test_a_discovered_group_is_there_for_the_rest_of_the_turn_only(turns, scripted, settings):
    """TLS-04."""
    settings.TOOL_ROUTING_MODE = "dynamic"
    tools = (LONG_TEXT, LEDGER, make_discovery(lambda: tools))
    scripted.script(
        scripts.tool_calls(call("discover_tool_groups", groups=["sample"])),
        scripts.tool_calls(call("ledger_rows")),
        scripts.answer("ok"),
    )

    async with running(*tools):
        await turns.say("hello")
        await turns.say("Tell me something entirely different, at some length, please")

    named = [_named(request) for request in scripted.requests]
    core, granted = (
        ["long_text", "discover_tool_groups"],
        ["long_text", "ledger_rows", "discover_tool_groups"],
    )
    assert named == [core, granted, granted, core]
    result = await db(lambda: Message.objects.filter(role="tool").order_by("seq").last())
    assert result.content == "done"


async def test_a_follow_up_keeps_the_tools_of_the_turn_before(turns, scripted, settings):
    """TLS-03."""
    settings.TOOL_ROUTING_MODE = "dynamic"
    tools = (LONG_TEXT, LEDGER, make_discovery(lambda: tools))
    scripted.script(scripts.tool_calls(call("ledger_rows")), scripts.answer("ok"))

    async with running(*tools):
        await turns.say("Show my transactions")
        await turns.say("And tomorrow?")

    assert ["ledger_rows" in _named(request) for request in scripted.requests] == [True, True, True]
