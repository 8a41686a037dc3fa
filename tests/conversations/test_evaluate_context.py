"""The evaluation: it passes as shipped, each of its checks can fail, and it leaves nothing behind."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from agentx.llm.messages import AssistantMessage, SystemMessage, UserMessage
from conversations.evaluation.checks import (
    Seen,
    extends,
    holds,
    latest_value,
    left_view,
    pinned,
    value_seen,
    values_seen,
)
from conversations.models import Conversation, Message, ModelRecord

FIGURES = ("41,250.00", "43,980.50", "43,890.50")
MISSED = "turn 58: 43,890.50 is in view with its turn, and not followed by 41,250.00 or 43,980.50"


def evaluate(*arguments: str) -> tuple[int, dict]:
    """Exit code and verdicts."""
    out, code = StringIO(), 0
    try:
        call_command("evaluate_context", "--json", *arguments, stdout=out)
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, json.loads(out.getvalue())


def seen(**fields) -> Seen:
    return Seen(**{"blocks": {}, "history": (), "recalled": "", **fields})


@pytest.mark.django_db
def test_ctx_22_every_scenario_passes_as_shipped_and_nothing_stays(django_user_model):
    """CTX-22, INV-4, INV-5: facts kept, no request above its budget, no prefix broken within an epoch."""
    code, verdicts = evaluate()

    rows = verdicts["scenarios"]
    assert [row["missed"] for row in rows] == [[]] * 6
    assert [(row["over_budget"], row["prefix_breaks"]) for row in rows] == [(0, 0)] * 6
    assert code == 0
    assert [row["scenario"] for row in rows if not row["cuts"]] == ["finance"]
    for model in (Message, Conversation, ModelRecord, django_user_model):
        assert not model.objects.exists()


@pytest.mark.django_db
def test_without_recall_what_was_said_once_long_ago_is_missed(settings):
    settings.CONTEXT_RECALL_SHARE = 0.0

    code, verdicts = evaluate("--scenario", "corrections")

    assert code == 1
    assert verdicts["scenarios"][0]["missed"] == [MISSED]


@pytest.mark.django_db
def test_a_window_in_which_a_turn_does_not_fit_is_a_miss(settings):
    code, verdicts = evaluate("--scenario", "late-decision", "--window", "1024")

    assert code == 1
    assert verdicts["scenarios"][0]["turns"] == 1
    assert "the request needs" in verdicts["scenarios"][0]["missed"][0]


@pytest.mark.django_db
def test_the_same_settings_give_the_same_verdict():
    def verdict() -> dict:
        row = evaluate("--scenario", "finance")[1]["scenarios"][0]
        del row["milliseconds"]
        return row

    assert verdict() == verdict()


@pytest.mark.django_db
def test_the_table_names_each_scenario_and_what_was_missed(settings):
    settings.CONTEXT_RECALL_SHARE = 0.0
    out = StringIO()

    with pytest.raises(SystemExit):
        call_command("evaluate_context", "--scenario", "corrections", stdout=out)

    heading, row, *missed = out.getvalue().splitlines()
    assert heading.startswith("scenario")
    assert row.startswith("corrections")
    assert row.endswith("MISSED")
    assert missed == [f"MISSED corrections: {MISSED}"]


def test_a_window_below_the_least_is_refused():
    with pytest.raises(CommandError, match="at least 1024"):
        call_command("evaluate_context", "--window", "10")


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("in all 1,284.35 EUR", "1,284.35", True),
        ("in all 1,284.35.", "1,284.35", True),
        ("(1,284.35)", "1,284.35", True),
        ("11,284.35", "1,284.35", False),
        ("21,284.35", "284.35", False),
        ("1,284.357", "1,284.35", False),
        ("see INV-17, please", "INV-17", True),
        ("see INV-171", "INV-17", False),
        ("see INV-17-B", "INV-17", False),
        ("see PINV-17", "INV-17", False),
        ('"id": "txn-70037"', "txn-70037", True),
        ("firmware 4.18.2", "4.18.2", True),
        ("firmware 4.18.21", "4.18.2", False),
        ("firmware 14.18.2", "4.18.2", False),
        ("https://a.example/e/9921.", "https://a.example/e/9921", True),
        ("https://a.example/e/9921/x", "https://a.example/e/9921", False),
    ],
)
def test_a_similar_value_does_not_count(text, value, found):
    assert holds(text, value) is found


def test_values_are_looked_for_everywhere_and_each_must_be_there():
    given = seen(blocks={"digest": "A-1"}, history=((1, "A-2"),), recalled="A-3")

    assert value_seen("A-2").passes(given)
    assert values_seen("all", ["A-1", "A-2", "A-3"]).passes(given)
    assert not values_seen("all", ["A-1", "A-4"]).passes(given)


def test_only_the_pinned_block_pins():
    assert pinned("Never.").passes(seen(blocks={"pinned_constraints": "- [message 1] Never."}))
    assert not pinned("Never.").passes(seen(blocks={"digest": "Never."}, history=((1, "Never."),)))


def test_what_is_in_the_history_has_not_left_it():
    assert not left_view("said").passes(seen(history=((1, "it was said"),)))
    assert left_view("said").passes(seen(recalled="it was said"))


def test_the_latest_value_counts_with_its_turn_alone():
    check = latest_value(FIGURES, turn=9)

    assert check.passes(seen(recalled="[turn 9, user] it is 43,890.50"))
    assert check.passes(seen(history=((9, "it is 43,890.50"),)))
    assert not check.passes(seen(recalled="[turn 8, user] it is 43,890.50"))
    assert not check.passes(seen(blocks={"digest": "it is 43,890.50"}))


def test_an_older_value_may_come_before_the_latest_but_not_after_it():
    check = latest_value(FIGURES, turn=9)
    latest = "[turn 9, user] it is 43,890.50"

    assert check.passes(seen(recalled=f"[turn 5, user] it is 43,980.50\n\n{latest}"))
    assert not check.passes(seen(recalled=f"{latest}\n\n[turn 11, user] it is 43,980.50"))
    assert not check.passes(
        seen(history=((9, "it is 43,890.50"),), recalled="[turn 1, user] it is 41,250.00")
    )


def test_a_request_extends_the_one_before_it_byte_for_byte():
    before = [
        SystemMessage("s"),
        UserMessage("q1"),
        AssistantMessage("a1"),
        UserMessage("tail"),
        UserMessage("q2"),
    ]

    assert extends(before=before, now=[*before[:3], UserMessage("q2")], stable=3)
    assert not extends(before=before, now=[*before[:2], AssistantMessage("a1 "), UserMessage("q2")], stable=3)
    assert not extends(before=before, now=before[:2], stable=3)
