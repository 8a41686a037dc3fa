"""Blocks: who gets room, in which order, and that what is shrunk really fits."""

from __future__ import annotations

import pytest

from agentx.llm.tokens import HeuristicTokenizer, TokenCounter
from conversations.context.blocks import (
    PRIORITIES,
    Block,
    allocate_blocks,
    keep_facts,
    keep_head,
    keep_newest_lines,
    keep_tail,
    make_block,
)
from conversations.context.budget import BudgetRules, derive_budget, derive_reserves

COUNTER = TokenCounter(HeuristicTokenizer())
RULES = BudgetRules(response_reserve=4096, safety_reserve=2048, verbatim_ratio=0.85)


@pytest.mark.parametrize(
    ("window", "changes", "expected"),
    [
        (200_000, {}, 170_000),  # the ratio binds
        (32_768, {}, 26_624),  # the reserves bind: 32,768 - 4,096 - 2,048
        (32_768, {"prompt_target": 16_000}, 16_000),  # the target binds
        (32_768, {"spend_guard": 9_000}, 9_000),  # the guard binds
        (8_192, {}, 5_632),  # small window: 8,192 - a quarter - a sixteenth
        (8_000, {"prompt_target": 16_000}, 5_500),
        (32_768, {"exact_counts": True}, 27_852),  # safety 256, so the ratio binds
    ],
)
def test_ctx_02_the_budget_is_the_smallest_of_its_limits(window, changes, expected):
    """CTX-02, CTX-16."""
    rules = BudgetRules(response_reserve=4096, safety_reserve=2048, verbatim_ratio=0.85, **changes)

    assert derive_budget(window=window, rules=rules).tokens == expected


def test_ctx_26_reserves_are_fixed_by_the_budget_alone():
    """CTX-26: 2,000 tokens for the ledger where there is room for them, a share of small budgets."""
    large, small = derive_reserves(budget=100_000, rules=RULES), derive_reserves(budget=5_600, rules=RULES)

    assert (large.recall, large.ledger, large.pinned, large.digest) == (1_000, 2_000, 1_000, 1_500)
    assert (small.recall, small.ledger, small.pinned, small.digest) == (1_000, 700, 350, 560)


def test_ctx_06_every_block_has_its_stated_priority():
    """CTX-06."""
    stated = {
        "research": 96, "workflow_supervisor": 95, "manager_charter": 92, "thinking_directive": 92,
        "project_identity": 90, "participants": 90, "project_instructions": 88, "project_manifest": 85,
        "delegation_roster": 85, "checkpoints": 80, "pinned_constraints": 78, "scratchpad": 75,
        "memory_core": 70, "conversation_state": 68, "digest": 65, "skills_index": 62,
        "conversation_images": 60, "history_digest": 60, "overflow_notice": 58, "history": 50,
        "recall": 48, "evidence_ledger": 45, "knowledge": 40, "memory_recall": 30, "thread_leads": 28,
        "token_budget": 10,
    }  # fmt: skip

    assert stated == PRIORITIES


def _block(key: str, tokens: int, **fields) -> Block:
    return Block(
        key=key, content="x" * tokens, tokens=tokens, stability="volatile", priority=PRIORITIES[key], **fields
    )


class CharacterCounter:
    """One token a character, so that sizes in a test are what they say."""

    name = "characters"

    def count_text(self, text: str) -> int:
        return len(text)

    def count_message(self, message) -> int:
        return len(message.content)

    def count_tools(self, tools) -> int:
        return 0


def _granted(blocks, budget):
    granted = allocate_blocks(blocks=blocks, budget=budget, counter=CharacterCounter())
    return {item.block.key: (item.tokens, item.action) for item in granted}


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (100, {"base": (10, "full"), "memory_core": (30, "full"), "recall": (20, "full")}),
        (50, {"base": (10, "full"), "memory_core": (30, "full"), "recall": (0, "dropped")}),
        (35, {"base": (10, "full"), "memory_core": (25, "shrunk"), "recall": (0, "dropped")}),
        (15, {"base": (10, "full"), "memory_core": (0, "dropped"), "recall": (0, "dropped")}),
        (5, {"base": (10, "full"), "memory_core": (0, "dropped"), "recall": (0, "dropped")}),
    ],
)
def test_ctx_03_mandatory_first_then_by_priority_whole_shrunk_or_not_at_all(budget, expected):
    """CTX-01, CTX-03: squeezed stepwise."""
    blocks = [
        _block("recall", 20),
        _block("memory_core", 30, shrink=keep_tail, min_tokens=20),
        Block(key="base", content="b" * 10, tokens=10, stability="stable", mandatory=True),
    ]

    assert _granted(blocks, budget) == expected


def test_ctx_04_history_outranks_recall_and_yields_to_what_stands_above_it():
    """CTX-04."""
    blocks = [_block("recall", 40), _block("history", 40), _block("digest", 40)]

    assert _granted(blocks, 50) == {
        "recall": (0, "dropped"),
        "history": (0, "dropped"),
        "digest": (40, "full"),
    }
    assert _granted(blocks[:2], 50) == {"recall": (0, "dropped"), "history": (40, "full")}


def test_equal_priorities_are_served_in_the_order_of_registration():
    blocks = [_block("conversation_images", 30), _block("history_digest", 30)]

    assert _granted(blocks, 40) == {"conversation_images": (30, "full"), "history_digest": (0, "dropped")}
    assert _granted(blocks[::-1], 40) == {
        "history_digest": (30, "full"),
        "conversation_images": (0, "dropped"),
    }


def test_ctx_05_the_order_of_the_answer_is_the_order_given_whatever_the_priorities():
    """CTX-05."""
    keys = ["memory_core", "thread_leads", "research", "recall"]

    granted = allocate_blocks(blocks=[_block(key, 5) for key in keys], budget=100, counter=CharacterCounter())

    assert [item.block.key for item in granted] == keys


SAMPLES = {
    "ascii": "The quick brown fox jumps over the lazy dog. " * 40,
    "cjk": "请记住预算是十二万元不要超过这个数字。" * 40,
    "emoji": "👩‍👩‍👧‍👦🌊🎉 " * 60,
    "mixed": "línea uno\n二行目\nтретья строка\n" * 40,
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("most", [1, 7, 50, 200])
@pytest.mark.parametrize("shrink", [keep_tail, keep_head, keep_newest_lines, keep_facts])
def test_ctx_07_every_shrunk_text_is_measured_again_and_fits(name, most, shrink):
    """CTX-07."""
    text = SAMPLES[name]

    short = shrink(text, most, COUNTER)

    assert COUNTER.count_text(short) <= most
    assert short in text


def test_ctx_07_newest_lines_survive_and_facts_are_kept_of_a_bundle():
    """CTX-07."""
    lines = "\n".join(f"checkpoint {n}" for n in range(20))
    bundle = "## Recent\n- chatter\n## Known facts\n- likes tea\n- lives in Bern\n## Other\n- more"

    assert keep_newest_lines(lines, 12, COUNTER).splitlines()[-1] == "checkpoint 19"
    assert keep_facts(bundle, 100, COUNTER) == "## Known facts\n- likes tea\n- lives in Bern"


def test_a_block_without_a_stated_priority_cannot_be_made():
    with pytest.raises(KeyError):
        make_block(key="surprise", content="x", counter=COUNTER, stability="slow")
