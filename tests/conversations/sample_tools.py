"""Tools that tests let a model call: one of each kind that a turn has to cope with."""

from __future__ import annotations

import asyncio
import json

from tests.conversations.running import NoArguments
from tools.contracts import Tool, ToolArguments, ToolContext, ToolResult


class WordArguments(ToolArguments):
    word: str = ""


async def hang(_context: ToolContext, _arguments: NoArguments) -> ToolResult:
    await asyncio.sleep(60)
    return ToolResult(content="never")


def _echo(_context: ToolContext, arguments: WordArguments) -> ToolResult:
    return ToolResult(content=f"The word is {arguments.word}.", artifact={"word": arguments.word})


def _fail(_context: ToolContext, _arguments: NoArguments) -> ToolResult:
    raise RuntimeError("secret detail")


def _note(_context: ToolContext, _arguments: WordArguments) -> ToolResult:
    return ToolResult(content="noted")


def _rows(_context: ToolContext, _arguments: NoArguments) -> ToolResult:
    rows = [{"id": number, "memo": "m" * 200} for number in range(200)]
    return ToolResult(content=json.dumps(rows), artifact={"rows": rows})


TOOLS = (
    Tool("echo_word", "Say a word again.", "Saying a word", "sample", WordArguments, _echo),
    Tool("hang", "Never end.", "Hanging", "sample", NoArguments, hang, timeout=0.3),
    Tool("fail", "Break.", "Breaking", "sample", NoArguments, _fail),
    Tool("note_state", "Write something down.", "Writing it down", "state", WordArguments, _note),
    Tool("many_rows", "Give many rows.", "Reading rows", "sample", NoArguments, _rows),
)
