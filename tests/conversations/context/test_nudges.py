"""What counts as an answer: replies that only name a tool, and the words a model is told instead."""

from __future__ import annotations

import pytest

from conversations.context.nudges import EMPTY, clean_echo, make_draft, make_nudge
from tests.conversations.context.simulation import COUNTER

KNOWN = {"current_date", "conversation_search"}


@pytest.mark.parametrize(
    "text",
    [
        "current_date",
        " `current_date` ",
        "current_date\nconversation_search",
        "<tool_call>\ncurrent_date\n</tool_call>",
        "[current_date]()",
        "**conversation_search**.",
    ],
)
def test_a_reply_of_tool_names_alone_is_no_answer(text):
    assert clean_echo(text=text, called=set(), known=KNOWN) == ""


@pytest.mark.parametrize(
    "text",
    [
        "I used current_date to find out.",
        "current_date says it is Monday.",
        "The tools are: current_date and conversation_search",
        "",
        "Plain words.",
        "```\ncurrent_date\n```\nis how you call it",
    ],
)
def test_words_about_tools_stay(text):
    assert clean_echo(text=text, called=KNOWN, known=KNOWN) == text


def test_the_name_of_a_called_tool_on_the_first_line_goes():
    text = "**current_date**\n\nIt is Monday."

    assert clean_echo(text=text, called={"current_date"}, known=KNOWN) == "It is Monday."


def test_a_heading_with_the_name_of_a_tool_that_was_not_called_stays():
    text = "current_date\nis one of my tools."

    assert clean_echo(text=text, called=set(), known=KNOWN) == text


def test_nudges_are_marked_as_ours_counted_and_never_stored():
    nudge, draft = (
        make_nudge(text=EMPTY, turn=3, counter=COUNTER),
        make_draft(text="half", turn=3, counter=COUNTER),
    )

    assert (nudge.role, nudge.seq, nudge.turn) == ("user", 0, 3)
    assert nudge.content == f"[AgentX] {EMPTY}"
    assert nudge.tokens > 10
    assert (draft.role, draft.seq, draft.content) == ("assistant", 0, "half")
