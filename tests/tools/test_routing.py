"""Which tools a request names: always the same ones, or those the question needs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agentx.llm.messages import ToolCall
from conversations.context.types import TranscriptMessage
from tools.builtin import BUILTIN
from tools.builtin.discovery import make_discovery
from tools.builtin.sample import SAMPLE_TOOLS
from tools.contracts import Tool, ToolArguments, ToolContext, ToolResult
from tools.policy import DISCOVERY
from tools.registry import Registry, tool_schemas
from tools.routing import ToolUse, choose_tools, pair_uses, points_back, read_grants
from tools.services.execute import call_execute

ROOT = Path(__file__).resolve().parent.parent.parent


def _tool(name: str, group: Any, *, admin_only: bool = False) -> Tool:
    return Tool(
        name,
        "Does it.",
        "Doing it",
        group,
        ToolArguments,
        lambda _c, _a: ToolResult("ok"),
        admin_only=admin_only,
    )


TOOLS = (
    _tool("conversation_search", "context"),
    _tool("sample_transactions", "sample"),
    _tool("current_date", "time"),
    _tool("weather_report", "weather"),
    _tool("purge_ledger", "operations", admin_only=True),
    _tool(DISCOVERY, "discovery"),
)
CORE = ["conversation_search", "current_date", DISCOVERY]
SPENT = ToolUse(
    "sample_transactions", "{}", "txn-2025-0042 Green Basket", {"transactions": [{"id": "txn-2025-0077"}]}
)
FORECAST = ToolUse("weather_report", "{}", "Rain.")


def _names(question: str, **given: Any) -> list[str]:
    given = {"mode": "dynamic", "role": "user", "tools": TOOLS, **given}
    return [tool.name for tool in choose_tools(question=question, **given)]


@pytest.mark.parametrize("question", ["", "What did I spend?", "And tomorrow?", "Will the weather hold?"])
def test_tls_02_static_routing_names_the_same_tools_for_every_question(question):
    """TLS-02: all of the role's, in their order, without a discovery tool, whatever has been called."""
    chosen = choose_tools(mode="static", tools=TOOLS, role="user", question=question, turn_uses=[SPENT])

    assert [tool.name for tool in chosen] == [
        *("conversation_search", "sample_transactions", "current_date", "weather_report")
    ]
    assert tool_schemas(chosen) == tool_schemas(
        choose_tools(mode="static", tools=TOOLS, role="user", question="x")
    )


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_tls_05_admin_tools_are_named_for_admins_alone(mode):
    """TLS-05: in both modes, and neither words nor calls nor grants open them."""
    grant = ToolUse(DISCOVERY, '{"groups": ["purge_ledger"]}', "", {"granted": ["purge_ledger"]})
    given = {"mode": mode, "turn_uses": [grant, ToolUse("purge_ledger", "{}", "done")]}

    assert "purge_ledger" not in _names("purge the ledger", **given)
    assert "purge_ledger" in _names("purge the ledger", role="admin", **given)


@pytest.mark.parametrize(
    ("question", "further"),
    [
        ("How are you?", []),
        ("How much did I SPEND on groceries?", ["sample_transactions"]),
        ("List my transactions.", ["sample_transactions"]),
        ("Which categories are there?", ["sample_transactions"]),
        ("What is the weather like?", ["weather_report"]),
        ("Compare the weather with my spending", ["sample_transactions", "weather_report"]),
        ("I am suspending the moneyed class", []),
    ],
)
def test_tls_03_words_of_the_question_choose_groups(question, further):
    """TLS-03."""
    expected = {*CORE, *further}

    assert _names(question) == [tool.name for tool in TOOLS if tool.name in expected]


@pytest.mark.parametrize(
    "question",
    [
        *("Do that again", "The same for the others", "And tomorrow?", "What about last month?", "in March"),
        *("Und gestern?", "为什么？", "Show txn-2025-0042", "Is 2025-0077 mine? No: txn-2025-0077", "2024?"),
    ],
)
def test_tls_03_a_question_that_points_back_inherits_the_turn_before(question):
    """TLS-03: by pointing, by being little more than a time, or by an id of the last result."""
    assert "sample_transactions" in _names(question, previous_uses=[SPENT])
    assert "sample_transactions" not in _names(question)


@pytest.mark.parametrize(
    "question",
    [
        "Please write a short poem about the sea",
        "Explain how tomorrow never comes in plain words, with two examples from novels",
        "Show txn-2025-00421",
        "Room 42",
    ],
)
def test_tls_03_a_question_of_its_own_inherits_nothing(question):
    """TLS-03."""
    assert _names(question, previous_uses=[SPENT]) == CORE


def test_tls_03_groups_used_in_this_turn_stay():
    """TLS-03."""
    assert "weather_report" in _names("Please write a poem about the sea", turn_uses=[FORECAST])


def test_a_short_question_that_names_its_group_does_not_take_the_old_one_too():
    assert not points_back(question="My spending?", previous_uses=[FORECAST], names_group=True)
    assert _names("My spending?", previous_uses=[FORECAST]) == [
        *("conversation_search", "sample_transactions", "current_date", DISCOVERY)
    ]


def test_tls_04_a_grant_holds_for_the_turn_of_its_result():
    """TLS-04."""
    grant = ToolUse(DISCOVERY, '{"groups": ["weather_report"]}', "", {"granted": ["weather_report"]})

    assert "weather_report" in _names("Please write a poem", turn_uses=[grant])
    assert "weather_report" not in _names("Please write a poem", previous_uses=[grant])


@pytest.mark.parametrize(
    "use",
    [
        ToolUse("sample_transactions", '{"groups": ["weather_report"]}', "", {"granted": ["weather_report"]}),
        ToolUse(DISCOVERY, '{"groups": ["sample"]}', "", {"granted": ["weather_report"]}),
        ToolUse(DISCOVERY, '{"groups": ["weather_report"]}', '{"granted": ["weather_report"]}'),
        ToolUse(DISCOVERY, '{"groups": ["weather_report"]}', "", {"granted": "weather_report"}),
        ToolUse(DISCOVERY, '{"groups": ["weather_report"]}', "", ["weather_report"]),
        ToolUse(DISCOVERY, "not json", "", {"granted": ["weather_report"]}),
        ToolUse(DISCOVERY, "[" * 100_000, "", {"granted": ["weather_report"]}),
    ],
    ids=[
        "another tool",
        "not asked for",
        "content only",
        "no list",
        "no object",
        "no arguments",
        "deep arguments",
    ],
)
def test_tls_04_what_only_looks_like_a_grant_is_none(use):
    """TLS-04."""
    assert read_grants([use]) == set()


def _said(role: Any, **fields: Any) -> TranscriptMessage:
    return TranscriptMessage(id=1, seq=1, turn=1, role=role, content="", tokens=0, **fields)


def _calls(*ids: str) -> TranscriptMessage:
    return _said(
        "assistant",
        tool_calls=tuple(ToolCall(name, DISCOVERY, '{"groups": ["weather_report"]}') for name in ids),
    )


GRANTED = {"granted": ["weather_report"]}


def test_tls_04_only_results_that_answer_a_call_count():
    """TLS-04: a result belongs to the message with its call, directly before, and once."""
    alone = [_said("tool", tool_call_id="a", artifact=GRANTED)]
    far = [_calls("a"), _said("user"), _said("tool", tool_call_id="a", artifact=GRANTED)]
    other = [_calls("a"), _said("tool", tool_call_id="b", artifact=GRANTED)]
    forged_calls = [
        _said("user", tool_calls=(ToolCall("a", DISCOVERY, '{"groups": ["weather_report"]}'),)),
        _said("tool", tool_call_id="a", artifact=GRANTED),
    ]
    unanswered = [_calls("a")]
    twice = [_calls("a", "b"), *(_said("tool", tool_call_id=name, artifact=GRANTED) for name in "baa")]

    assert [len(pair_uses(messages)) for messages in (alone, far, other, forged_calls, unanswered)] == [0] * 5
    assert len(pair_uses(twice)) == 2
    assert read_grants(pair_uses(twice)) == {"weather_report"}


def test_any_other_mode_is_an_error():
    with pytest.raises(ValueError, match="sometimes"):
        _names("x", mode="sometimes")


def test_tls_05_an_unknown_mode_fails_at_start_up():
    """TLS-05."""
    done = subprocess.run(
        [sys.executable, "-c", "import agentx.settings.base"],
        cwd=ROOT,
        env={**os.environ, "TOOL_ROUTING_MODE": "sometimes"},
        capture_output=True,
        text=True,
    )

    assert done.returncode != 0
    assert "TOOL_ROUTING_MODE='sometimes' is neither static nor dynamic" in done.stderr


# ---- discover_tool_groups, over the installation's tools -------------------------------------------------------------


def _discover(role: Any = "user", arguments: str = "{}") -> ToolResult:
    tool = make_discovery(lambda: TOOLS)
    context = ToolContext(
        user_id=1, conversation_id=UUID(int=1), run_id=UUID(int=2), turn=1, question="", role=role
    )
    call = ToolCall("1", DISCOVERY, arguments)
    return asyncio.run(call_execute(call=call, tools={DISCOVERY: tool}, context=context)).result


def test_tls_04_groups_are_listed_with_their_tools():
    """TLS-04."""
    result = _discover()

    assert [(row["group"], row["tools"]) for row in result.artifact["groups"]] == [
        ("context", ["conversation_search"]),
        ("sample", ["sample_transactions"]),
        ("time", ["current_date"]),
        ("weather_report", ["weather_report"]),
    ]
    assert "sample: A ledger of transactions and a vault of notes. (sample_transactions)" in result.content


def test_tls_04_what_discovery_grants_is_named_in_the_next_request():
    """TLS-04: through the result of the call, as it is stored, and nothing else."""
    arguments = '{"groups": ["weather_report", "weather_report"]}'
    result = _discover(arguments=arguments)

    assert result.artifact["granted"] == ["weather_report"]
    use = ToolUse(DISCOVERY, arguments, result.content, json.loads(json.dumps(result.artifact)))
    assert "weather_report" in _names("Please write a poem", turn_uses=[use])
    assert "weather_report" not in _names("Please write a poem")


@pytest.mark.parametrize("group", ["purge_ledger", "nothing", "", "__class__"])
def test_tls_04_groups_of_admins_are_unknown_to_others(group):
    """TLS-04: the answer is that of a group that does not exist."""
    result = _discover(arguments=json.dumps({"groups": [group]}))

    assert (result.ok, result.artifact) == (False, None)
    assert result.content == (
        "There is no such group of tools. The groups are: context, sample, time, weather_report."
    )


def test_the_discovery_tool_is_registered_where_tools_are_chosen(settings):
    for mode, expected in (("static", False), ("dynamic", True)):
        settings.TOOL_ROUTING_MODE = mode

        assert (DISCOVERY in [tool.name for tool in Registry(BUILTIN).tools]) is expected


@pytest.mark.parametrize("ok", [True, False])
def test_tls_04_only_a_call_that_was_carried_out_opens_a_group(ok):
    """TLS-04: neither a refused call of a tool nor a refused grant does."""
    asked = '{"groups": ["sample"]}'
    uses = (
        ToolUse(SAMPLE_TOOLS[0].name, "{}", content="", ok=ok),
        ToolUse("discover_tool_groups", asked, content="", artifact={"granted": ["sample"]}, ok=ok),
    )

    for use in uses:
        chosen = choose_tools(
            mode="dynamic",
            tools=SAMPLE_TOOLS,
            role="user",
            question="hello there, how are you doing this fine day",
            turn_uses=[use],
        )
        assert bool(chosen) is ok
