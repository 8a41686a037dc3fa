"""The scripted server and the ways to reach it that the conformance tests run against."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from agentx.llm.client import ChatModel, ChatModelSettings, FastChatModel, LangchainChatModel
from tests.scripted_model import ScriptedModel

KEY = "sk-canary-4f1d9a7c2b"

# Every implementation of the seam passes the same tests.
CLIENTS: dict[str, Callable[[ChatModelSettings], ChatModel]] = {
    "langchain": LangchainChatModel,
    "fast": FastChatModel,
}


@pytest.fixture(scope="module")
def scripted_server() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


@pytest.fixture
def scripted(scripted_server: ScriptedModel) -> ScriptedModel:
    """The scripted model without scripts or records."""
    scripted_server.reset()
    return scripted_server


@pytest.fixture(params=CLIENTS)
async def connect(request, scripted):
    """A function that makes a client of the kind under test; keywords replace settings."""
    made: list[ChatModel] = []

    def make(**changes) -> ChatModel:
        settings = {
            "base_url": scripted.base_url,
            "api_key": KEY,
            "model": "scripted",
            "connect_timeout": 2.0,
            "read_timeout": 5.0,
        }
        made.append(CLIENTS[request.param](ChatModelSettings(**{**settings, **changes})))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()


@pytest.fixture
def model(connect) -> ChatModel:
    return connect()
