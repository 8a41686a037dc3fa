"""The whole path with the bundled llama.cpp model instead of the scripted one."""

from __future__ import annotations

import pytest

from agentx.embedded.llama import WINDOW_TOKENS, EmbeddedLlama
from tests.stack import answer_text, running_stack

pytestmark = [pytest.mark.flow, pytest.mark.model]


@pytest.fixture(scope="module")
def model_stack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    with (
        EmbeddedLlama(data_dir=folder / "model") as model,
        running_stack(
            folder,
            LLM_BASE_URL=model.url,
            LLM_MODEL="smollm2-135m-instruct",
            CONTEXT_WINDOW_TOKENS="0",
            MODEL_STALL_SECONDS="60",
            # So small a model may ramble to its limit, which takes minutes on a busy machine.
            RESPONSE_RESERVE_TOKENS="32",
        ) as stack,
    ):
        yield stack


def test_a_real_model_streams_an_answer_that_is_stored_with_its_own_figures(model_stack):
    client = model_stack.client()
    conversation = client.conversation()

    events = client.events(client.accepted(conversation, "Name three colours."), timeout=120)

    answer = client.messages(conversation)[1]
    assert answer["content"] == answer_text(events) != ""
    assert sum(event["type"] == "delta" for event in events) > 1
    usage = answer["metadata"]["usage"]
    assert usage["usage_complete"] is True
    assert usage["prompt_tokens"] > 0
    assert usage["output_tokens"] > 0
    assert answer["metadata"]["context"]["window"] == WINDOW_TOKENS


def test_the_second_turn_is_read_from_the_models_cache(model_stack):
    client = model_stack.client()
    conversation = client.conversation()
    client.ended(client.accepted(conversation, "My name is Ada. Say hello."), seconds=120)

    run = client.ended(client.accepted(conversation, "Say goodbye."), seconds=120)

    assert run["usage"]["cached_tokens"] > 20  # the system prompt and the first turn
