"""Carrying out calls: every failure is a result, and none holds up another."""

from __future__ import annotations

import asyncio
import math
import threading
from uuid import uuid4

import pytest

from agentx.llm.messages import ToolCall
from tools.contracts import Tool, ToolArguments, ToolContext, ToolFailure, ToolResult
from tools.services.execute import call_execute, calls_execute

CONTEXT = ToolContext(user_id=1, conversation_id=uuid4(), run_id=uuid4(), turn=1, question="?")


class Arguments(ToolArguments):
    number: int = 0


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


async def test_hanging_functions_hold_up_nobody_and_order_is_kept():
    release = threading.Event()
    hanging = _tool(lambda _c, _a: release.wait(30) and None, name="hang", timeout=0.3)
    quick = _tool(lambda _c, a: ToolResult(str(a.number)), name="quick")
    calls = [ToolCall(str(n), "quick", f'{{"number": {n}}}') for n in range(29)]
    calls.insert(3, ToolCall("h", "hang", "{}"))
    ended: list[str] = []

    executed = await calls_execute(
        calls=calls,
        tools={"hang": hanging, "quick": quick},
        context=CONTEXT,
        on_end=lambda done: ended.append(done.call.id),
    )
    release.set()

    assert [item.call for item in executed] == calls
    assert [item.result.ok for item in executed] == [call.id != "h" for call in calls]
    assert ended[-1] == "h"
    assert "0.3 seconds" in executed[3].result.content


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
