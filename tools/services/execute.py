"""Carrying out the calls of one answer: side by side, each within its time, each with exactly one result.

Nothing a model writes and nothing a tool does may end a turn: whatever goes wrong becomes a result that the model can read.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import structlog
from pydantic import ValidationError

from agentx.llm.messages import ToolCall
from tools.cleaning import clean_result, clean_strings
from tools.contracts import Executed, Tool, ToolContext, ToolFailure, ToolResult
from tools.services.outputs import result_gate
from tools.services.threads import in_tool_thread

log = structlog.get_logger(__name__)

# Storing a long result is a few statements; a database that needs longer is in trouble, and the view can shorten too.
GATE_SECONDS = 10.0
# As much of a name a model has made up as it is told again.
_NAME_CHARACTERS = 80
# As many mistakes of one call as are told at once.
_MOST_PROBLEMS = 8


async def calls_execute(
    *,
    calls: Sequence[ToolCall],
    tools: Mapping[str, Tool],
    context: ToolContext,
    on_end: Callable[[Executed], None] = lambda _executed: None,
) -> tuple[Executed, ...]:
    """Every call's result, in the order of the calls. ``on_end`` is called as each one ends.

    Cancelling it cancels every call; a plain function that is running goes on in its thread, and its result is dropped.
    """

    async def one(call: ToolCall) -> Executed:
        executed = await call_execute(call=call, tools=tools, context=context)
        on_end(executed)
        return executed

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(call)) for call in calls]
    return tuple(task.result() for task in tasks)


async def call_execute(*, call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> Executed:
    """One call's result; ``ok`` is False for every kind of failure. Only cancellation is raised.

    A long result is stored only where ``tools`` has those that read it.
    """
    began = time.monotonic()
    tool = tools.get(call.name)
    label = _shorten(call.name) if tool is None else tool.label
    if tool is None:
        result = _refuse(_say_unknown(call.name, tools))
    else:
        result = await _run(tool, call, context)
    cleaned, lost = clean_result(result)
    if lost is not None:
        log.warning("tool_result_not_json", tool=call.name, error=lost)
    if tool is not None and any(other.reads_stored and other.group == "outputs" for other in tools.values()):
        cleaned = await _pass_gate(cleaned, tool, call, context)
    return Executed(call=call, result=cleaned, seconds=time.monotonic() - began, label=label)


async def _pass_gate(result: ToolResult, tool: Tool, call: ToolCall, context: ToolContext) -> ToolResult:
    """The result, short with the whole of it stored where it was long. One that cannot be stored is left to the view."""
    try:
        async with asyncio.timeout(GATE_SECONDS):
            return await in_tool_thread(
                partial(result_gate, result=result, tool=tool, call_id=call.id, context=context)
            )
    except Exception as error:  # a result that is shown in part is better than none
        log.error("tool_output_not_stored", tool=tool.name, error=type(error).__name__)
        return result


async def _run(tool: Tool, call: ToolCall, context: ToolContext) -> ToolResult:
    try:
        arguments = _read_arguments(tool, call.arguments)
    except ToolFailure as failure:
        return _refuse(str(failure))
    limit = asyncio.timeout(tool.timeout)
    try:
        async with limit:
            return await _invoke(tool, context, arguments)
    except ToolFailure as failure:
        return _refuse(str(failure))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return _fail(tool, error)  # the tool's own: something it waited for was cancelled, not this call
    except TimeoutError as error:
        if not limit.expired():
            return _fail(tool, error)  # the tool's own too, such as that of a socket
        log.warning("tool_timeout", tool=tool.name, seconds=tool.timeout)
        return _refuse(
            f"{tool.name} did not finish within {tool.timeout:g} seconds and was given up."
            " Ask for less, or go on without it."
        )
    except (Exception, SystemExit) as error:
        return _fail(tool, error)


async def _invoke(tool: Tool, context: ToolContext, arguments: Any) -> ToolResult:
    if inspect.iscoroutinefunction(tool.run):
        result: object = await tool.run(context, arguments)
    else:
        result = await in_tool_thread(tool.run, context, arguments)
        if inspect.isawaitable(result):  # a plain function around a coroutine function
            result = await result
    if not isinstance(result, ToolResult):
        raise TypeError(f"{tool.name} gave a {type(result).__name__} and not a ToolResult")
    return result


def _refuse(text: str) -> ToolResult:
    return ToolResult(content=text, ok=False)


def _fail(tool: Tool, error: BaseException) -> ToolResult:
    """The type alone: messages of errors may quote what the tool read."""
    log.error("tool_failed", tool=tool.name, exc_info=error)
    return _refuse(f"{tool.name} failed with an internal error ({type(error).__name__}). Go on without it.")


def _read_arguments(tool: Tool, text: str) -> Any:
    """The validated arguments. Raises ``ToolFailure`` with what is wrong with them."""
    try:
        return tool.arguments.model_validate(_parse_object(text))
    except ValidationError as error:
        raise ToolFailure(_say_invalid(tool, error)) from None


def _parse_object(text: str) -> dict[str, Any]:
    """The JSON object a model wrote, with strings the database can take. No text at all is no arguments."""
    if not text.strip():
        return {}
    try:
        parsed: object = json.loads(text)
    except RecursionError:
        raise ToolFailure("The arguments are nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise ToolFailure(
            f"The arguments are not valid JSON ({error}). Call again with one JSON object."
        ) from None
    except ValueError:  # Python reads no whole number of more than 4,300 digits
        raise ToolFailure("The arguments have a number that is too long.") from None
    if not isinstance(parsed, dict):
        raise ToolFailure("The arguments must be one JSON object, such as {}.")
    try:
        return cast("dict[str, Any]", clean_strings(parsed))
    except ValueError:
        raise ToolFailure("The arguments are nested too deeply.") from None


def _say_unknown(name: str, tools: Mapping[str, Tool]) -> str:
    if not tools:
        return "There are no tools to call. Answer in words."
    near = difflib.get_close_matches(_shorten(name), tools, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"There is no tool named {_shorten(name)!r}.{hint} The tools are: {', '.join(tools)}."


def _say_invalid(tool: Tool, error: ValidationError) -> str:
    problems = [
        f"{_shorten('.'.join(str(part) for part in problem['loc'])) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    told = "; ".join(problems[:_MOST_PROBLEMS])
    known = ", ".join(tool.arguments.model_fields) or "none"
    return f"The arguments do not fit {tool.name}: {told}. Its arguments are: {known}."


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else f"{name[:_NAME_CHARACTERS]}…"
