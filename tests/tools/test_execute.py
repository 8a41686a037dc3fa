"""Carrying out calls: every failure is a result, and none holds up another."""

from __future__ import annotations

import asyncio
import math
import threading
from datetime import date
from decimal import Decimal
from uuid import UUID, uuid4

import pytest

from agentx.llm.messages import ToolCall
from tools.contracts import Tool, ToolArguments, ToolContext, ToolFailure, ToolResult
from tools.services.execute import call_execute, calls_execute

CONTEXT = ToolContext(user_id=1, conversation_id=uuid4(), run_id=uuid4(), turn=1, question="?")


class Arguments(ToolArguments):
    number: int = 0
    text: str = ""


def _tool(run, *, name: str = "tool", timeout: float = 5.0) -> Tool:
    return Tool(name, "Does it.", "Doing it", "sample", Arguments, run, timeout=timeout)


async def _execute(run, arguments: str = "{}", **fields) -> ToolResult:
    tool = _tool(run, **fields)
    executed = await call_execute(
        call=ToolCall("1", "tool", arguments), tools={tool.name: tool}, context=CONTEXT
    )
    return executed.result


async def test_a_plain_function_and_a_coroutine_function_give_their_results():
    async def later(_context, arguments):
        return ToolResult(f"later {arguments.number}")

    assert (await _execute(lambda _c, a: ToolResult(f"now {a.number}"), '{"number": 3}')).content == "now 3"
    assert (await _execute(later, '{"number": "4"}')).content == "later 4"


async def test_no_arguments_at_all_are_an_empty_object():
    assert (await _execute(lambda _c, a: ToolResult(str(a.number)), "")).content == "0"


@pytest.mark.parametrize("arguments", ["[]", "null", '"x"', "3"])
async def test_arguments_that_are_no_object_are_refused(arguments):
    result = await _execute(lambda _c, _a: ToolResult("ran"), arguments)

    assert (result.ok, "one JSON object" in result.content) == (False, True)


async def test_arguments_nested_beyond_the_parsers_stack_are_refused():
    result = await _execute(lambda _c, _a: ToolResult("ran"), '{"number":' + "[" * 100_000)

    assert result.ok is False


async def test_a_misspelt_tool_is_answered_with_its_neighbour():
    tool = _tool(lambda _c, _a: ToolResult("ran"), name="conversation_search")

    executed = await call_execute(
        call=ToolCall("1", "conversation_serch", "{}"), tools={tool.name: tool}, context=CONTEXT
    )

    assert executed.result.ok is False
    assert "Did you mean conversation_search?" in executed.result.content


async def test_a_failure_the_tool_words_itself_reaches_the_model():
    def run(_context, _arguments):
        raise ToolFailure("There is no such page; there are 3.")

    assert await _execute(run) == ToolResult("There is no such page; there are 3.", ok=False)


async def test_what_cannot_be_stored_is_replaced():
    result = await _execute(
        lambda _c, _a: ToolResult("a\x00b\ud800c", artifact={"k\x00": ["\ud800", (1, 2)]}),
    )

    assert (result.content, result.artifact) == ("a\ufffdb\ufffdc", {"k\ufffd": ["\ufffd", [1, 2]]})


@pytest.mark.parametrize("artifact", [{"x": object()}, {"x": math.nan}, {1, 2}], ids=["object", "nan", "set"])
async def test_an_artifact_that_is_no_json_is_left_out(artifact):
    assert await _execute(lambda _c, _a: ToolResult("text", artifact=artifact)) == ToolResult("text")


def _nothing(_context, _arguments):
    return None


def _words(_context, _arguments):
    return "words"


def _exit(_context, _arguments):
    raise SystemExit(3)


async def _exit_later(_context, _arguments):
    raise SystemExit(3)


async def _cancel_itself(_context, _arguments):
    raise asyncio.CancelledError


async def _time_out_itself(_context, _arguments):
    raise TimeoutError("a socket's")


def _validate_wrongly(_context, _arguments):
    Arguments.model_validate({"number": "secret"})


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (_nothing, "TypeError"),
        (_words, "TypeError"),
        (_exit, "ToolCrashed"),
        (_exit_later, "SystemExit"),
        (_cancel_itself, "CancelledError"),
        (_time_out_itself, "TimeoutError"),
        (_validate_wrongly, "ValidationError"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
async def test_whatever_a_tool_does_wrong_is_a_result_that_names_its_kind_alone(run, kind):
    """Neither a wrong value, nor an exit, nor a timeout or cancellation of its own leaves the call."""
    result = await _execute(run)

    assert result == ToolResult(f"tool failed with an internal error ({kind}). Go on without it.", ok=False)


async def test_a_plain_function_around_a_coroutine_function_is_awaited():
    async def later(number):
        return ToolResult(f"later {number}")

    assert (await _execute(lambda _c, a: later(a.number), '{"number": 3}')).content == "later 3"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"number": 1', "not valid JSON (Expecting"),
        ('{"number": "x"}', "number: Input should be a valid integer"),
        ('{"number": 1e999}', "number: Input should be a finite number"),
        ('{"number": NaN}', "number: Input should be a finite number"),
        ('{"number": %s}' % ("1" * 5_000), "a number that is too long"),
        ('{"%s": 1}' % ("k" * 5_000), f"{'k' * 80}…: Extra inputs are not permitted"),
        (
            "{{{}}}".format(", ".join(f'"k{n}": 1' for n in range(500))),
            "k7: Extra inputs are not permitted. Its arguments are: number, text.",
        ),
        ('{{"text": {}1{}}}'.format("[" * 100, "]" * 100), "nested too deeply"),
    ],
    ids=["cut", "type", "infinite", "nan", "long number", "long name", "many names", "deep"],
)
async def test_what_is_wrong_with_arguments_is_said_briefly(arguments, said):
    result = await _execute(lambda _c, _a: ToolResult("ran"), arguments)

    assert (result.ok, said in result.content) == (False, True)
    assert "http" not in result.content
    assert len(result.content) < 1_000


@pytest.mark.parametrize("text", ["a\\u0000b", "a\\ud800b"])
async def test_arguments_reach_a_tool_as_text_the_database_takes(text):
    result = await _execute(lambda _c, a: ToolResult(repr(a.text)), f'{{"text": "{text}"}}')

    assert result.content == repr("a\ufffdb")


async def test_dates_decimals_and_ids_in_an_artifact_become_text():
    artifact = {"day": date(2025, 3, 1), "sum": Decimal("1.10"), "id": UUID(int=5)}

    result = await _execute(lambda _c, _a: ToolResult("text", artifact=artifact))

    assert result.artifact == {"day": "2025-03-01", "sum": "1.10", "id": str(UUID(int=5))}


async def test_hanging_tools_hold_up_nobody_and_order_is_kept():
    """Thirty calls, one plain function and one coroutine among them that never end: the round ends at their timeout."""
    release = threading.Event()

    async def hang(_context, _arguments):
        await asyncio.Event().wait()

    tools = {
        "stuck": _tool(lambda _c, _a: release.wait(30) and None, name="stuck", timeout=0.3),
        "hang": _tool(hang, name="hang", timeout=0.3),
        "quick": _tool(lambda _c, a: ToolResult(str(a.number)), name="quick"),
    }
    calls = [ToolCall(str(n), "quick", f'{{"number": {n}}}') for n in range(28)]
    calls.insert(3, ToolCall("s", "stuck", "{}"))
    calls.insert(9, ToolCall("h", "hang", "{}"))
    ended: list[str] = []

    executed = await calls_execute(
        calls=calls, tools=tools, context=CONTEXT, on_end=lambda done: ended.append(done.call.id)
    )
    release.set()

    assert [item.call for item in executed] == calls
    assert [item.result.ok for item in executed] == [call.id not in "sh" for call in calls]
    assert [item.result.content for item in executed if item.result.ok] == [str(n) for n in range(28)]
    assert sorted(ended[-2:]) == ["h", "s"]
    assert "0.3 seconds" in executed[3].result.content


async def test_every_failure_at_once_leaves_one_result_for_each_call():
    runs = [_nothing, _exit, _cancel_itself, _validate_wrongly, lambda _c, _a: ToolResult("fine")]
    tools = {f"t{n}": _tool(run, name=f"t{n}") for n, run in enumerate(runs)}
    calls = [ToolCall(f"{n}", f"t{n % 6}", "{}" if n % 7 else "{") for n in range(30)]

    executed = await calls_execute(calls=calls, tools=tools, context=CONTEXT)

    assert [item.call for item in executed] == calls
    assert [item.result.content for item in executed if item.result.ok] == ["fine"] * 4


async def test_cancelling_the_round_cancels_every_call():
    cancelled: list[int] = []
    started = asyncio.Event()

    async def run(_context, arguments):
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(arguments.number)
            raise

    tool = _tool(run)
    calls = [ToolCall(str(n), "tool", f'{{"number": {n}}}') for n in range(3)]
    task = asyncio.create_task(calls_execute(calls=calls, tools={"tool": tool}, context=CONTEXT))
    await started.wait()
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(cancelled) == [0, 1, 2]
