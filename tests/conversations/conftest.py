"""A runner inside the test's event loop, on the real database, Valkey and scripted model server."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from agentx.threads import in_db_thread
from conversations.runner import Runner
from conversations.services.attach import run_follow
from conversations.services.conversations import conversation_create
from conversations.services.submit import turn_submit
from tests.conversations.running import at_work
from tests.scripted_model import ScriptedModel


@pytest.fixture(scope="session")
def scripted_server():
    with ScriptedModel() as running:
        yield running


@pytest.fixture
def scripted(scripted_server, settings):
    """The scripted model, forgotten between tests, as the model of this test's runner. Waits are short."""
    scripted_server.reset()
    settings.LLM_BASE_URL = scripted_server.base_url
    settings.LLM_MODEL = "scripted"
    settings.CONTEXT_WINDOW_TOKENS = 32_768
    settings.RUN_HEARTBEAT_SECONDS = 0.3
    settings.RUN_LEASE_SECONDS = 15.0
    settings.RUN_CHECKPOINT_SECONDS = 0.1
    settings.RUN_DRAIN_SECONDS = 0.2
    settings.MODEL_STALL_SECONDS = 1.0
    settings.SLOW_MODEL_FIRST_PING_SECONDS = 0.2
    settings.SLOW_MODEL_PING_INTERVAL_SECONDS = 0.2
    settings.RATE_LIMIT_WAIT_SCHEDULE = [0.2, 0.4]
    return scripted_server


class Turns:
    """Sends messages of one user in one conversation and collects what their runs say."""

    def __init__(self, user_id: int, conversation_id) -> None:
        self.user_id, self.conversation_id = user_id, conversation_id

    async def submit(self, content: str, **fields):
        return await in_db_thread(
            turn_submit, user_id=self.user_id, conversation_id=self.conversation_id, content=content, **fields
        )

    async def follow(self, run_id, **where) -> list[dict]:
        """Every event and frame until the end."""
        follow = run_follow(user_id=self.user_id, run_id=run_id, **where)
        return [orjson.loads(item.payload) async for item in follow]

    async def say(self, content: str) -> list[dict]:
        """Send and collect."""
        accepted = await self.submit(content)
        return await asyncio.wait_for(self.follow(accepted.run.id), 20)


@pytest.fixture
async def runner(scripted, transactional_db):
    """A runner that works until the test is over."""
    made = Runner()
    async with at_work(made):
        yield made


@pytest.fixture
def turns(transactional_db, make_user):
    """A fresh conversation of a fresh user."""
    user = make_user()
    return Turns(user.pk, conversation_create(user_id=user.pk).id)
