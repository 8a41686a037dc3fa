"""Everything the view of a run is made of, read at one moment with a fixed number of queries."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.conf import settings

from agentx.llm.profiles import ModelProfile, profile_for
from conversations.context.budget import BudgetRules, derive_budget
from conversations.context.prompt import BASE_PROMPT
from conversations.context.types import Snapshot, TranscriptMessage
from conversations.models import Message, Run

# More rows than this are never loaded, however short they are: the cost of a view must not grow with the conversation.
MAX_ROWS = 400


def snapshot_load(*, run_id: UUID, reported_window: int | None = None) -> Snapshot:
    """The snapshot of a run: its question and the newest messages before it that could fit. Two queries.

    ``reported_window``: tokens the provider says its model takes, when it was asked.
    """
    run = Run.objects.select_related("user_message").get(pk=run_id)
    question = run.user_message
    window = window_tokens(profile_for(run.model, reported_window=reported_window))
    rules = budget_rules()
    budget = derive_budget(window=window, rules=rules)
    # The running total bounds the query by what could fit, so 10 messages or 100,000 cost the same.
    floor = question.cumulative_tokens - question.token_count - budget.tokens
    rows = Message.objects.filter(
        conversation_id=run.conversation_id,
        seq__lt=question.seq,
        cumulative_tokens__gt=floor,
        superseded_at=None,
        deleted_at=None,
    ).order_by("-seq")[:MAX_ROWS]
    return Snapshot(
        system_prompt=BASE_PROMPT,
        history=tuple(transcript_message(row) for row in reversed(rows)),
        question=transcript_message(question),
        turns_before=question.turn - 1,
        window=window,
        rules=rules,
    )


def transcript_message(row: Message) -> TranscriptMessage:
    """A stored message as the engine sees it."""
    return TranscriptMessage(
        id=row.pk,
        seq=row.seq,
        turn=row.turn,
        role=cast(Any, row.role),
        content=row.content,
        tokens=row.token_count,
    )


def window_tokens(profile: ModelProfile) -> int:
    """The window to plan with, in tokens: the forced one, else the profile's."""
    return settings.CONTEXT_WINDOW_TOKENS or profile.max_input_tokens


def budget_rules() -> BudgetRules:
    """The operator's budget settings as the engine takes them."""
    return BudgetRules(
        response_reserve=settings.RESPONSE_RESERVE_TOKENS,
        safety_reserve=settings.SAFETY_RESERVE_TOKENS,
        verbatim_ratio=settings.CONTEXT_VERBATIM_RATIO,
        prompt_target=settings.PROMPT_BUDGET_TOKENS,
    )
