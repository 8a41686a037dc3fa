"""Estimates come near to what a provider reports, and nonsense does not lead them away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.llm.calibration import CONVERSATION, MODEL, Scope, choose_ratio, update_ratio
from agentx.llm.usage import read_usage


def after(reports, *, scope: Scope, ratio: float = 1.0, calls: int = 0) -> tuple[float, int]:
    """(ratio, calls) after these (reported, estimated) pairs."""
    for reported, estimated in reports:
        ratio, calls = update_ratio(
            ratio=ratio, calls=calls, reported=reported, estimated=estimated, scope=scope
        )
    return ratio, calls


@pytest.mark.parametrize("scope", [MODEL, CONVERSATION])
def test_the_first_call_is_believed_at_once(scope):
    assert after([(1_300, 1_000)], scope=scope) == (1.3, 1)


@pytest.mark.parametrize("scope", [MODEL, CONVERSATION])
def test_ten_calls_that_scatter_by_a_tenth_give_the_ratio_within_5_percent(scope):
    scatter = [1.1, 0.9, 1.05, 0.95, 1.0, 0.9, 1.1, 0.97, 1.03, 1.0]

    ratio, calls = after([(round(1_400 * share), 1_000) for share in scatter], scope=scope)

    assert calls == 10
    assert abs(ratio / 1.4 - 1) <= 0.05


def test_a_conversation_that_changes_its_language_is_followed_within_ten_calls():
    settled = after([(1_100, 1_000)] * 50, scope=CONVERSATION)
    ratio, _ = after([(2_600, 1_000)] * 10, scope=CONVERSATION, ratio=settled[0], calls=settled[1])

    assert abs(ratio / 2.6 - 1) <= 0.05


@pytest.mark.parametrize(
    ("scope", "reported", "ratio"),
    [(MODEL, 3_000, 2.0), (MODEL, 500, 0.9), (CONVERSATION, 5_000, 4.0), (CONVERSATION, 300, 0.5)],
)
def test_a_ratio_stays_within_its_bounds(scope, reported, ratio):
    assert after([(reported, 1_000)] * 5, scope=scope) == (ratio, 5)


@pytest.mark.parametrize(
    ("reported", "estimated"),
    [
        (None, 1_000),
        (0, 1_000),
        (-5, 1_000),
        (199, 1_000),
        (1_000, 0),
        (1_000, 199),
        (10_001, 1_000),
        (250, 2_501),
    ],
)
def test_figures_that_mean_nothing_change_nothing(reported, estimated):
    assert after([(reported, estimated)], scope=CONVERSATION, ratio=1.2, calls=3) == (1.2, 3)


@given(
    st.lists(st.tuples(st.none() | st.integers(-10, 10**9), st.integers(-10, 10**9)), max_size=30),
    st.sampled_from([MODEL, CONVERSATION]),
)
def test_no_reports_whatever_lead_a_ratio_out_of_its_bounds(reports, scope):
    ratio, calls = after(reports, scope=scope)

    assert scope.least <= ratio <= scope.most
    assert 0 <= calls <= len(reports)


@pytest.mark.parametrize(
    ("model_calls", "conversation", "conversation_calls", "ratio"),
    [(5, 2.0, 1, 2.0), (5, 2.0, 0, 1.5), (5, None, 3, 1.5), (0, None, 0, 1.0), (0, 2.0, 1, 2.0)],
)
def test_the_conversations_own_ratio_goes_before_the_models(
    model_calls, conversation, conversation_calls, ratio
):
    chosen = choose_ratio(
        model=1.5, model_calls=model_calls, conversation=conversation, conversation_calls=conversation_calls
    )

    assert chosen == ratio


def test_cached_tokens_beside_the_prompt_are_part_of_what_is_learned_from():
    """A provider that reports 200 fresh and 1,000 cached tokens has read 1,200, not 200."""
    usage = read_usage(
        {
            "input_tokens": 200,
            "cache_read_input_tokens": 1_000,
            "cache_creation_input_tokens": 0,
            "output_tokens": 5,
        }
    )

    ratio, calls = after([(usage.prompt_tokens, 1_000)], scope=MODEL)

    assert (ratio, calls) == (1.2, 1)
