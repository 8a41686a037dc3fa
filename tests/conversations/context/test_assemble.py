"""The view: whole turns from the newest back, the question untouched, never more than the budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.llm.tokens import HeuristicTokenizer, TokenCounter
from conversations.context.assemble import assemble_view
from conversations.context.budget import BudgetRules, derive_budget
from conversations.context.types import QuestionDoesNotFit, Snapshot, TranscriptMessage

COUNTER = TokenCounter(HeuristicTokenizer())
RULES = BudgetRules(response_reserve=4096, safety_reserve=2048, verbatim_ratio=0.85)


def _message(seq: int, turn: int, role: str, content: str) -> TranscriptMessage:
    return TranscriptMessage(
        id=seq, seq=seq, turn=turn, role=role, content=content, tokens=COUNTER.count_text(content) + 4
    )


def _snapshot(history: list[TranscriptMessage], question: str, *, window: int = 32_768) -> Snapshot:
    seq = history[-1].seq + 1 if history else 1
    turn = history[-1].turn + 1 if history else 1
    return Snapshot(
        system_prompt="Be brief.",
        history=tuple(history),
        question=_message(seq, turn, "user", question),
        turns_before=turn - 1,
        window=window,
        rules=RULES,
    )


@pytest.mark.parametrize(
    ("window", "target", "expected"),
    [
        (200_000, 0, 170_000),  # the ratio binds
        (32_768, 0, 26_624),  # the reserves bind: 32,768 - 4,096 - 2,048
        (32_768, 16_000, 16_000),  # the target binds
        (8_192, 0, 5_632),  # small window: 8,192 - a quarter - a sixteenth
    ],
)
def test_ctx_02_the_budget_is_the_smallest_of_its_limits(window, target, expected):
    """CTX-02."""
    rules = BudgetRules(response_reserve=4096, safety_reserve=2048, verbatim_ratio=0.85, prompt_target=target)

    assert derive_budget(window=window, rules=rules).tokens == expected


def test_everything_fits_and_is_sent_in_order():
    history = [_message(1, 1, "user", "a"), _message(2, 1, "assistant", "b")]

    view = assemble_view(snapshot=_snapshot(history, "c"), counter=COUNTER)

    assert [(m.role, m.content) for m in view.messages] == [
        ("system", "Be brief."),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]
    assert view.allocation.dropped_turns == 0
    assert {grant.key: grant.action for grant in view.allocation.grants}["history"] == "full"


def test_the_oldest_turns_go_first_and_whole():
    """CTX-16."""
    history = []
    for turn in range(1, 11):
        history += [
            _message(2 * turn - 1, turn, "user", f"question {turn} " + "word " * 200),
            _message(2 * turn, turn, "assistant", f"answer {turn}"),
        ]

    view = assemble_view(snapshot=_snapshot(history, "now?", window=1600), counter=COUNTER)

    sent = [m.content.split(" word")[0] for m in view.messages[1:-1]]
    assert sent == [f"{word} {turn}" for turn in (7, 8, 9, 10) for word in ("question", "answer")]
    assert view.allocation.dropped_turns == 6
    assert view.allocation.first_seq == 13


def test_ctx_18_a_question_that_cannot_fit_is_an_error_with_figures():
    """CTX-18."""
    with pytest.raises(QuestionDoesNotFit) as failed:
        assemble_view(snapshot=_snapshot([], "word " * 2000, window=1000), counter=COUNTER)

    assert failed.value.budget == 688
    assert failed.value.question > 688


_words = st.text(alphabet=st.sampled_from("ab \n漢é😀0"), max_size=120)


@given(
    turns=st.lists(st.lists(_words, min_size=1, max_size=4), max_size=12),
    question=_words,
    window=st.integers(200, 3000),
)
def test_inv_4_inv_2_any_history_fits_and_is_whole(turns, question, window):
    history, seq = [], 0
    for number, texts in enumerate(turns, 1):
        for index, text in enumerate(texts):
            seq += 1
            history.append(_message(seq, number, "user" if index == 0 else "assistant", text))
    snapshot = _snapshot(history, question, window=window)
    before = repr(snapshot)

    try:
        view = assemble_view(snapshot=snapshot, counter=COUNTER)
    except QuestionDoesNotFit:
        return

    allocation = view.allocation
    assert repr(snapshot) == before
    assert allocation.used <= allocation.budget
    assert sum(COUNTER.count_message(m) for m in view.messages) <= allocation.budget
    assert view.messages[-1].content == question
    kept = [m for m in history if m.seq >= allocation.first_seq]
    assert [m.content for m in view.messages[1:-1]] == [m.content for m in kept if m.content.strip()]
    assert len({m.turn for m in kept}) + allocation.dropped_turns == snapshot.turns_before
