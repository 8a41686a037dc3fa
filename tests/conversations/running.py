"""A runner for a part of a test, and what tests of its turns have in common."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from agentx.threads import in_db_thread
from conversations.models import Message, Run
from conversations.runner import Runner
from conversations.services.attach import run_follow
from conversations.services.cancel import run_cancel
from tools.contracts import Tool, ToolArguments

R = TypeVar("R")


class NoArguments(ToolArguments):
    """Of a tool that is only called."""


@asynccontextmanager
async def running(*tools: Tool) -> AsyncIterator[None]:
    """A runner whose turns have exactly these tools."""
    async with at_work(Runner(tools=tools)):
        yield


@asynccontextmanager
async def at_work(runner: Runner) -> AsyncIterator[None]:
    """``runner`` takes runs until the end of the block, where it is drained."""
    task = asyncio.create_task(runner.run())
    try:
        yield
    finally:
        runner.stop()
        await asyncio.wait_for(task, 20)


async def db(read: Callable[[], R]) -> R:
    """What ``read`` finds in the database."""
    return await in_db_thread(read)


def call(name: str, **arguments: object) -> tuple[str, str]:
    """A call as scripts write it."""
    return name, json.dumps(arguments)


def of(events: list[dict], kind: str) -> list[dict]:
    """The data of a run's events of one kind."""
    return [event["data"] for event in events if event["type"] == kind and "seq" in event]


async def stored() -> tuple[Run, list[Message]]:
    """The only run, and all messages in order."""
    return await db(lambda: (Run.objects.get(), list(Message.objects.order_by("seq"))))


def roles(messages: list[Message]) -> list[str]:
    return [row.role for row in messages]


async def stop_at(kind: str, turns, accepted, phase: str | None = None) -> list[dict]:
    """Every event of a run that is stopped with its first event of ``kind``, and in that phase where one is given."""
    events: list[dict] = []
    asked = False
    async for item in run_follow(user_id=turns.user_id, run_id=accepted.run.id):
        events.append(json.loads(item.payload))
        reached = events[-1]["type"] == kind and phase in (None, events[-1]["data"].get("phase"))
        if reached and not asked:
            asked = True
            await in_db_thread(run_cancel, user_id=turns.user_id, run_id=accepted.run.id)
    return events


def announced(events: list[dict]) -> list[str]:
    """What people were told about models that stand in."""
    return [
        event["data"]["label"]
        for event in events
        if event["type"] == "status" and event["data"]["phase"] == "model_fallback"
    ]
