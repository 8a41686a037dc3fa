"""The tools that read a conversation: the words they bring back, and everything they must not."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from uuid import UUID, uuid4

import pytest

from agentx.llm.messages import ToolCall
from conversations.models import Message
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
    assert result.content.startswith("Turns 18 to 20 of 40.")
    assert "seq39x" in result.content
    assert "read what is before with center_turn=17" in result.content
    short = talk_import(user_id=user.pk, turns=40, words=1)
    whole = _call("read_thread", _context(user, short), center_turn=20, before=19, after=19).content
    assert whole.startswith("Turns 1 to 20 of 40.")
    assert whole.endswith("read on with center_turn=21]")


def test_what_is_cut_can_be_read_by_following_the_marks(user):
    conversation_id = talk_import(user_id=user.pk, turns=40, words=500)
    context = _context(user, conversation_id)

    seen: set[str] = set()
    center = 1
    while center:
        text = _call("read_thread", context, center_turn=center, before=0, after=19).content
        seen |= set(re.findall(r"seq\d+x", text))
        mark = re.search(r"read on with center_turn=(\d+)\]$", text)
        center = int(mark[1]) if mark else 0 if "seq80x" in text else len(seen) // 2 + 1

    assert seen == {f"seq{number}x" for number in range(1, 81)}


def test_a_turn_that_is_longer_than_a_reading_says_so(user):
    conversation_id = talk_import(user_id=user.pk, turns=3, words=5_000)

    text = _call("read_thread", _context(user, conversation_id), center_turn=2).content

    assert text.startswith("Turns 2 to 2 of 3.")
    assert len(text) <= 24_000
    assert "this turn is cut here, it has 70," in text
    assert text.endswith("read on with center_turn=3]")


def test_turns_that_no_conversation_has_are_told_apart_from_none(user, talk):
    for center in (31, 10**9, 10**30):
        result = _call("read_thread", _context(user, talk), center_turn=center, before=0)

        assert (result.ok, "there are 30 turns to read" in result.content) == (False, True)


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
