"""How much of a model's window one request may use, and how that is shared out."""

from __future__ import annotations

from dataclasses import dataclass

# Below this window both reserves shrink in proportion, so that a small model still has room for a conversation.
SMALL_WINDOW = 32_768
# What constraints and digest have room for even in a small budget, in tokens.
_LEAST_PINNED, _LEAST_DIGEST = 160, 256
# Kept for the chat template when every count comes from the model's own tokenizer.
EXACT_SAFETY_RESERVE = 256


@dataclass(frozen=True, slots=True)
class BudgetRules:
    """The operator's settings. All in tokens, but for ratios and shares; 0 switches a limit off.

    ``verbatim_ratio``: share of the window a prompt may use. ``prompt_target``: wanted below the window.
    ``spend_guard``: a limit on cost. ``low_watermark``: share of its room that history has after a cut.
    ``recall_max`` and ``recall_share`` (of the history budget) bound what recall brings back. ``ledger_max`` and
    ``digest_max`` bound those two blocks. ``exact_counts``: counts come from the model's own tokenizer.
    """

    response_reserve: int
    safety_reserve: int
    verbatim_ratio: float
    prompt_target: int = 0
    spend_guard: int = 0
    low_watermark: float = 0.5
    recall_max: int = 1_000
    recall_share: float = 0.35
    ledger_max: int = 2_000
    digest_max: int = 1_500
    exact_counts: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """``tokens``: the most the whole request may be estimated at. ``response``: the limit sent for the answer."""

    window: int
    tokens: int
    response: int


def derive_budget(*, window: int, rules: BudgetRules) -> Budget:
    """The smallest of ratio × window, window − both reserves, and the prompt target and spend guard where set.

    For windows under 32,768 the reserves are at most a quarter and a sixteenth of the window.
    """
    response, safety = rules.response_reserve, rules.safety_reserve
    if rules.exact_counts:
        safety = min(safety, EXACT_SAFETY_RESERVE)
    if window < SMALL_WINDOW:
        response = min(response, window // 4)
        safety = min(safety, window // 16)
    limits = [int(window * rules.verbatim_ratio), window - response - safety]
    limits += [limit for limit in (rules.prompt_target, rules.spend_guard) if limit]
    return Budget(window=window, tokens=max(0, min(limits)), response=response)


@dataclass(frozen=True, slots=True)
class Reserves:
    """Room kept free once turns have left the view, whatever the blocks turn out to need, so that their changing
    sizes never move the cut. All in tokens.
    """

    recall: int
    ledger: int
    pinned: int
    digest: int

    @property
    def slow(self) -> int:
        """For the blocks that are frozen with an epoch."""
        return self.ledger + self.pinned + self.digest


def derive_reserves(*, budget: int, rules: BudgetRules) -> Reserves:
    """The reserves out of a budget of ``budget`` tokens: the settings, but in a small budget at most the recall share,
    an eighth for the ledger, a sixteenth for pinned constraints and a tenth for the digest. Very small ones get more of
    the last two, which otherwise could not hold a sentence.
    """
    return Reserves(
        recall=min(rules.recall_max or budget, int(budget * rules.recall_share)),
        ledger=min(rules.ledger_max, budget // 8),
        pinned=min(rules.ledger_max // 2, max(budget // 16, min(_LEAST_PINNED, budget // 8))),
        digest=min(rules.digest_max, max(budget // 10, min(_LEAST_DIGEST, budget // 6))),
    )
