"""What tests of a client read from its streams."""

from __future__ import annotations

import pytest

from agentx.errors import ModelError
from agentx.llm.messages import ContentDelta, Heartbeat, ReasoningDelta, UserMessage

QUESTION = (UserMessage("Well?"),)


async def collect(model, messages=QUESTION) -> list:
    """Every item except signs of life."""
    stream = model.stream(messages=messages, max_output_tokens=500)
    return [item async for item in stream if not isinstance(item, Heartbeat)]


async def fail(model) -> tuple[list, ModelError]:
    """The items before the failure, and the failure."""
    items = []
    with pytest.raises(ModelError) as caught:
        async for item in model.stream(messages=QUESTION, max_output_tokens=500):
            items.append(item)
    return [item for item in items if not isinstance(item, Heartbeat)], caught.value


def text_of(items) -> str:
    return "".join(item.text for item in items if isinstance(item, ContentDelta))


def reasoning_of(items) -> str:
    return "".join(item.text for item in items if isinstance(item, ReasoningDelta))
