"""What a turn needs to know of its model: the profile, how far estimates are off, and the defaults that depend on both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from django.conf import settings

from agentx.llm.calibration import choose_ratio
from agentx.llm.facts import ModelProfile, ProfileOverride, PromptCaching
from agentx.llm.profiles import resolve_profile
from conversations.context.budget import BudgetRules
from conversations.models import Conversation, ModelRecord
from conversations.selectors.snapshot_rows import model_row

# A prompt beyond this makes a person wait on hardware of their own.
LOCAL_PROMPT_TOKENS = 16_000
# The gain of further passages flattens; on the bundled model each uncached token costs 10 ms of prefill.
RECALL_TOKENS, BUNDLED_RECALL_TOKENS = 1_000, 400


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model as a turn uses it. ``ratio``: reported ÷ estimated prompt tokens over ``ratio_calls`` calls."""

    profile: ModelProfile
    ratio: float = 1.0
    ratio_calls: int = 0


def model_read(*, model: str, reported_window: int | None) -> KnownModel:
    """The profile and the calibration of a model id. One query.

    ``reported_window``: tokens a llama.cpp server says it gives; None for other servers.
    """
    row = model_row(model=model)
    if row is None:
        profile = resolve_profile(model=model, override=None, reported=reported_window, learned=None)
        return KnownModel(profile)
    profile = resolve_profile(
        model=model, override=_override(row), reported=reported_window, learned=row.learned_window
    )
    return KnownModel(profile, ratio=row.calibration, ratio_calls=row.calibration_calls)


def profile_read(*, model: str, reported_window: int | None) -> ModelProfile:
    """The profile alone. One query."""
    return model_read(model=model, reported_window=reported_window).profile


def conversation_ratio(*, known: KnownModel, conversation: Conversation) -> float:
    """What estimates of this conversation's requests are multiplied by. Ratios of other models do not count."""
    own = conversation.calibration if conversation.calibration_model == known.profile.name else None
    return choose_ratio(
        model=known.ratio,
        model_calls=known.ratio_calls,
        conversation=own,
        conversation_calls=conversation.calibration_calls,
    )


def planned_window(profile: ModelProfile) -> int:
    """The window to plan with, in tokens: the forced one, else the profile's."""
    return settings.CONTEXT_WINDOW_TOKENS or profile.max_input_tokens


def budget_rules(profile: ModelProfile) -> BudgetRules:
    """The operator's budget settings for this model, as the engine takes them.

    The answer's limit is never more than the model can write.
    """
    reserve = settings.RESPONSE_RESERVE_TOKENS
    return BudgetRules(
        response_reserve=min(reserve, profile.max_output_tokens or reserve),
        safety_reserve=settings.SAFETY_RESERVE_TOKENS,
        verbatim_ratio=settings.CONTEXT_VERBATIM_RATIO,
        prompt_target=_prompt_target(profile),
        spend_guard=settings.CONTEXT_MAX_INPUT_TOKENS,
        low_watermark=settings.CONTEXT_LOW_WATERMARK,
        recall_max=_recall_tokens(profile),
        recall_share=settings.CONTEXT_RECALL_SHARE,
        ledger_max=settings.CONTEXT_LEDGER_TOKENS,
        digest_max=settings.DIGEST_MAX_TOKENS,
        exact_counts=profile.exact_counts,
    )


def _prompt_target(profile: ModelProfile) -> int:
    if settings.PROMPT_BUDGET_TOKENS is not None:
        return settings.PROMPT_BUDGET_TOKENS
    return 0 if profile.hosting == "provider" else LOCAL_PROMPT_TOKENS


def _recall_tokens(profile: ModelProfile) -> int:
    if settings.CONTEXT_RECALL_MAX_TOKENS is not None:
        return settings.CONTEXT_RECALL_MAX_TOKENS
    return BUNDLED_RECALL_TOKENS if profile.hosting == "bundled" else RECALL_TOKENS


def _override(row: ModelRecord) -> ProfileOverride:
    return ProfileOverride(
        max_input_tokens=row.max_input_tokens,
        max_output_tokens=row.max_output_tokens,
        prompt_caching=cast("PromptCaching | None", row.prompt_caching),
        strict_roles=row.strict_roles,
        vision=row.vision,
        tools=row.tools,
        image_tokens=row.image_tokens,
    )
