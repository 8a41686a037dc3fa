"""Carrying out the calls of one answer: side by side, each within its time, each with exactly one result.

Nothing a model writes and nothing a tool does may end a turn: whatever goes wrong becomes a result that the model can read.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, cast

import structlog
from django.db import connection
from pydantic import ValidationError

from agentx.llm.messages import ToolCall
from agentx.llm.reading import clean_text
from tools.contracts import Executed, Tool, ToolContext, ToolFailure, ToolResult

log = structlog.get_logger(__name__)

# Threads of this process for tools that are plain functions. Their own, so that tools that hang cannot take the threads
# through which turns reach the database; above the 30 calls that one answer may well make.
THREADS = 48
# How deep the JSON of arguments may be nested: more is an attack on the parser's stack, not a question.
MOST_DEPTH = 64

_pool: ThreadPoolExecutor | None = None


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
    """One call's result; ``ok`` is False for every kind of failure. Only cancellation is raised."""
    began = time.monotonic()
    tool = tools.get(call.name)
    label = call.name if tool is None else tool.label
    if tool is None:
        result = ToolResult(content=_say_unknown(call.name, tools), ok=False)
    else:
        result = await _run(tool, call, context)
    return Executed(call=call, result=_clean(result), seconds=time.monotonic() - began, label=label)


async def _run(tool: Tool, call: ToolCall, context: ToolContext) -> ToolResult:
    try:
        arguments = tool.arguments.model_validate(_parse_arguments(call.arguments))
        async with asyncio.timeout(tool.timeout):
            return await _invoke(tool, context, arguments)
    except ValidationError as error:
        return ToolResult(content=_say_invalid(tool, error), ok=False)
    except ToolFailure as failure:
        return ToolResult(content=str(failure), ok=False)
    except TimeoutError:
        log.warning("tool_timeout", tool=tool.name, seconds=tool.timeout)
        text = f"{tool.name} did not finish within {tool.timeout:g} seconds and was given up. Ask for less, or go on without it."
        return ToolResult(content=text, ok=False)
    except Exception as error:
        # The type alone: messages of errors may quote what the tool read.
        log.exception("tool_failed", tool=tool.name)
        text = f"{tool.name} failed with an internal error ({type(error).__name__}). Go on without it."
        return ToolResult(content=text, ok=False)


async def _invoke(tool: Tool, context: ToolContext, arguments: Any) -> ToolResult:
    if inspect.iscoroutinefunction(tool.run):
        return await cast("Awaitable[ToolResult]", tool.run(context, arguments))
    variables = copy_context()

    def work() -> ToolResult:
        try:
            return cast(ToolResult, variables.run(tool.run, context, arguments))
        finally:
            connection.close()

    return await asyncio.get_running_loop().run_in_executor(_threads(), work)


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="tool")
    return _pool


def _parse_arguments(text: str) -> dict[str, Any]:
    """The JSON object a model wrote. Raises ``ToolFailure``. No text at all is no arguments."""
    if not text.strip():
        return {}
    try:
        parsed: object = json.loads(text)
    except RecursionError:
        raise ToolFailure("The arguments are nested too deeply.") from None
    except ValueError as error:
        raise ToolFailure(
            f"The arguments are not valid JSON ({error}). Call again with one JSON object."
        ) from None
    if not isinstance(parsed, dict):
        raise ToolFailure("The arguments must be one JSON object, such as {}.")
    return cast("dict[str, Any]", parsed)


def _say_unknown(name: str, tools: Mapping[str, Tool]) -> str:
    if not tools:
        return "There are no tools to call. Answer in words."
    near = difflib.get_close_matches(name, tools, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    shown = name if len(name) <= 80 else f"{name[:80]}…"
    return f"There is no tool named {shown!r}.{hint} The tools are: {', '.join(tools)}."


def _say_invalid(tool: Tool, error: ValidationError) -> str:
    problems = [
        f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_context=False, include_input=False)[:8]
    ]
    known = ", ".join(tool.arguments.model_fields) or "none"
    return f"The arguments do not fit {tool.name}: {'; '.join(problems)}. Its arguments are: {known}."


def _clean(result: ToolResult) -> ToolResult:
    """The result as it can be stored: no NUL and no lone surrogates, the rest of it real JSON."""
    try:
        return ToolResult(
            content=clean_text(str(result.content)),
            artifact=_clean_json(result.artifact),
            model_context=_clean_json(result.model_context),
            ok=result.ok,
        )
    except (TypeError, ValueError, RecursionError) as error:
        log.warning("tool_result_not_json", error=type(error).__name__)
        return ToolResult(content=clean_text(str(result.content)), ok=result.ok)


def _clean_json(value: Any) -> Any:
    if value is None:
        return None
    return _clean_strings(json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False)))


def _clean_strings(value: Any, depth: int = 0) -> Any:
    if depth > MOST_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {clean_text(key): _clean_strings(item, depth + 1) for key, item in items}
    if isinstance(value, list):
        return [_clean_strings(item, depth + 1) for item in cast("list[Any]", value)]
    return value
