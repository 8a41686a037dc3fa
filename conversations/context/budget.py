"""How much of a model's window one request may use."""

from __future__ import annotations

from dataclasses import dataclass

# Below this window both reserves shrink in proportion, so that a small model still has room for a conversation.
SMALL_WINDOW = 32_768


@dataclass(frozen=True, slots=True)
class BudgetRules:
    """The operator's settings. All tokens, but for ``verbatim_ratio``, a share of the window; 0 switches a limit off."""

    response_reserve: int
    safety_reserve: int
    verbatim_ratio: float
    prompt_target: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """``tokens``: the most the whole request may be estimated at. ``response``: the limit sent for the answer."""

    window: int
    tokens: int
    response: int


def derive_budget(*, window: int, rules: BudgetRules) -> Budget:
    """The smallest of ratio × window, window − both reserves, and the prompt target where one is set.

    For windows under 32,768 the reserves are at most a quarter and a sixteenth of the window.
    """
    response, safety = rules.response_reserve, rules.safety_reserve
    if window < SMALL_WINDOW:
        response = min(response, window // 4)
        safety = min(safety, window // 16)
    limits = [int(window * rules.verbatim_ratio), window - response - safety]
    if rules.prompt_target:
        limits.append(rules.prompt_target)
    return Budget(window=window, tokens=max(0, min(limits)), response=response)
