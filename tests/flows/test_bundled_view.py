"""The view on the bundled llama.cpp model: what its server says it had cached, turn after turn, across a cut."""

from __future__ import annotations

import pytest

from agentx.embedded.llama import MODEL_ID, EmbeddedLlama
from tests.benchmarks.material.bundled import BundledTurn, breaks, turns_take
from tests.stack import running_stack

pytestmark = [pytest.mark.flow, pytest.mark.model]

# Enough for a cut however short the answers are: a question alone has about twenty tokens with its template.
TURNS = 18


@pytest.fixture(scope="module")
def taken(tmp_path_factory) -> list[BundledTurn]:
    folder = tmp_path_factory.mktemp("view")
    with (
        EmbeddedLlama(data_dir=folder / "model") as model,
        running_stack(
            folder,
            LLM_BASE_URL=model.url,
            LLM_MODEL=MODEL_ID,
            CONTEXT_WINDOW_TOKENS="0",
            PROMPT_BUDGET_TOKENS="360",
            RESPONSE_RESERVE_TOKENS="16",
            MODEL_STALL_SECONDS="60",
        ) as stack,
    ):
        return turns_take(stack=stack, count=TURNS)


def test_inv_5_the_models_cache_holds_all_but_the_tail_until_the_epoch_changes(taken):
    """INV-5: what the server reports as cached falls below the prediction at epoch changes only."""
    assert breaks(taken) == []
    assert taken[0].cached is not None
    assert all(turn.cached for turn in taken[1:])


def test_inv_4_the_reported_prompt_stays_within_the_budget_across_cuts(taken):
    """INV-4, CTX-22: turns do leave the view within these turns, and no prompt exceeds the target of 360 tokens."""
    assert taken[-1].epoch > taken[0].epoch
    assert max(turn.prompt for turn in taken) <= 360
