"""The tools that read a conversation: the words they bring back, and everything they must not."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import urllib.parse
from uuid import UUID, uuid4

import pytest

from agentx.llm.messages import ToolCall
from conversations.models import Message
from conversations.services.conversations import conversation_delete
from conversations.services.edits import messages_delete
from conversations.services.index import entries_catch_up
from tests.conversations.talks import talk_import, talk_turn
from tools.contracts import ToolContext, ToolResult
from tools.registry import default_registry
from tools.services.execute import call_execute

pytestmark = pytest.mark.django_db(transaction=True)

TOOLS = {tool.name: tool for tool in default_registry().tools}


def _context(user, conversation_id: UUID, *, turn: int = 1_000) -> ToolContext:
    return ToolContext(
        user_id=user.pk, conversation_id=conversation_id, run_id=uuid4(), turn=turn, question="?"
    )


def _call(name: str, context: ToolContext, **arguments: object) -> ToolResult:
    call = ToolCall("1", name, json.dumps(arguments))
    return asyncio.run(call_execute(call=call, tools=TOOLS, context=context)).result


@pytest.fixture
def user(make_user):
    return make_user()


@pytest.fixture
def stranger(make_user):
    return make_user()


@pytest.fixture
def talk(user) -> UUID:
    """Thirty turns; the figure was said in the third."""
    conversation_id = talk_import(user_id=user.pk, turns=2)
    talk_turn(
        conversation_id=conversation_id,
        question="The turbine costs 48,213 euros.",
        answer="I noted the price of the turbine.",
    )
    for number in range(27):
        talk_turn(conversation_id=conversation_id, question=f"Small talk {number}", answer="Yes.")
    entries_catch_up(conversation_id=conversation_id)
    return conversation_id


def test_att_14_a_search_gives_marked_excerpts_with_their_places(user, talk):
    """ATT-14."""
    result = _call("conversation_search", _context(user, talk), query="turbine price", max_results=2)

    [first, second] = result.artifact["results"]
    assert result.artifact["note"].startswith("Quotations")
    assert {first["turn"], second["turn"]} == {3}
    assert {first["role"], second["role"]} == {"user", "assistant"}
    assert first["rank"] == 1
    assert "**turbine**" in first["excerpt"] + second["excerpt"]
    assert set(first) >= {"seq", "turn", "role", "created_at", "rank", "excerpt"}


def test_a_search_can_be_limited_to_who_said_it(user, talk):
    result = _call("conversation_search", _context(user, talk), query="turbine", role_filter="assistant")

    assert {hit["role"] for hit in result.artifact["results"]} == {"assistant"}


@pytest.mark.parametrize("arguments", [{"max_results": 0}, {"max_results": 21}, {"query": ""}])
def test_limits_of_a_search_are_told_not_bent(user, talk, arguments):
    result = _call("conversation_search", _context(user, talk), **{"query": "turbine", **arguments})

    assert result.ok is False
    assert next(iter(arguments)) in result.content


def test_reading_a_thread_gives_the_words_around_a_turn(user, talk):
    result = _call("read_thread", _context(user, talk), center_turn=3, before=1, after=0)

    assert result.content.startswith("Turns 2 to 3 of 30. Quotations from earlier")
    assert "[user] The turbine costs 48,213 euros." in result.content
    assert "[assistant] I noted the price of the turbine." in result.content


def test_without_a_centre_the_earliest_turns_come(user, talk):
    result = _call("read_thread", _context(user, talk))

    assert result.content.startswith("Turns 1 to 7 of 30.")


def test_the_turn_that_asks_is_not_read(user, talk):
    result = _call("read_thread", _context(user, talk, turn=30), center_turn=30, before=0)

    assert (result.ok, "29 turns" in result.content) == (False, True)


def test_twenty_turns_and_24_000_characters_are_the_most(user):
    conversation_id = talk_import(user_id=user.pk, turns=40, words=500)

    result = _call("read_thread", _context(user, conversation_id), center_turn=20, before=19, after=19)

    assert len(result.content) <= 24_000
    assert "read on with center_turn=" in result.content
    short = talk_import(user_id=user.pk, turns=40, words=1)
    whole = _call("read_thread", _context(user, short), center_turn=20, before=19, after=19).content
    assert whole.startswith("Turns 1 to 20 of 40.")


@pytest.mark.parametrize("form", ["{}", "conversation_history/{}.md", " {} "])
def test_another_conversation_of_the_same_person_can_be_read(user, talk, form):
    other = talk_import(user_id=user.pk, turns=1)

    result = _call("read_thread", _context(user, other), conversation_id=form.format(talk), center_turn=3)

    assert "48,213" in result.content


def test_deleted_messages_are_neither_found_nor_read(user, talk):
    seq = Message.objects.get(conversation_id=talk, content__contains="48,213").seq
    messages_delete(conversation_id=talk, seqs=[seq])

    found = _call("conversation_search", _context(user, talk), query="48,213 turbine costs")
    read = _call("read_thread", _context(user, talk), center_turn=3)

    assert "48,213" not in found.content + str(found.artifact) + read.content


FORMS = {
    "plain": str,
    "upper case": lambda value: str(value).upper(),
    "no hyphens": lambda value: value.hex,
    "braces": lambda value: f"{{{value}}}",
    "urn": lambda value: value.urn,
    "file": lambda value: f"conversation_history/{value}.md",
    "path": lambda value: f"../conversation_history/{value}.md",
    "percent": lambda value: urllib.parse.quote(str(value).replace("-", "%2D")),
    "base64": lambda value: base64.b64encode(value.bytes).decode(),
    "spaces": lambda value: f"  {value}\t",
    "zero width": lambda value: f"\u200b{value}",
    "quoted": lambda value: f"'{value}' OR 1=1 --",
    "object": lambda value: {"id": str(value)},
    "list": lambda value: [str(value)],
    "number": lambda value: value.int,
}
# Arguments by which a tool can be pointed at something of somebody's; the rest only say how to look.
POINTERS = {"read_thread": ("conversation_id",)}
PLAIN = {
    "conversation_search": {"query", "max_results", "role_filter"},
    "read_thread": {"center_turn", "before", "after"},
    "current_date": set(),
}


def test_every_argument_of_every_tool_is_known_to_the_matrix_below():
    """A new tool or argument has to say whether it points at rows."""
    for name, tool in TOOLS.items():
        assert set(tool.arguments.model_fields) == PLAIN[name] | set(POINTERS.get(name, ()))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gone", [False, True], ids=["theirs", "deleted"])
@pytest.mark.parametrize(
    ("tool", "argument"), [(name, arg) for name, args in POINTERS.items() for arg in args]
)
def test_ids_of_others_are_answered_like_ids_that_never_were(user, stranger, tool, argument, gone, form):
    theirs = talk_import(user_id=stranger.pk, turns=2)
    mine = talk_import(user_id=user.pk, turns=2)
    if gone:
        conversation_delete(user_id=stranger.pk, conversation_id=theirs)
    context = _context(user, mine)

    answer = _call(tool, context, **{argument: FORMS[form](theirs)})
    never = _call(tool, context, **{argument: FORMS[form](uuid4())})

    assert answer == never
    assert answer.ok is False
    assert "seq1x" not in answer.content


def test_a_search_reads_the_conversation_of_its_context_alone(user, stranger, talk):
    theirs = talk_import(user_id=stranger.pk, turns=1)
    talk_turn(conversation_id=theirs, question="zanzibar", answer="Yes.")
    entries_catch_up(conversation_id=theirs)

    result = _call("conversation_search", _context(user, talk), query="zanzibar")

    assert (result.artifact, "zanzibar" in result.content) == (None, False)


def test_current_date_names_day_time_and_zone(user, talk, settings):
    settings.TIME_ZONE = "UTC"

    result = _call("current_date", _context(user, talk))

    assert set(result.artifact) == {"date", "weekday", "time", "zone", "utc_offset"}
    assert result.artifact["utc_offset"] == "+00:00"
    assert result.artifact["date"] in result.content


def test_no_tool_keeps_a_clock_in_what_models_are_told():
    """The prefix must be the same on every call."""
    assert all(
        not inspect.iscoroutine(tool.description) and "20" not in tool.description for tool in TOOLS.values()
    )
