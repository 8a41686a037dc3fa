"""What is said about a view: the event for people, the log lines for operators, the error when it cannot be made."""

from __future__ import annotations

from functools import cache

import structlog

from agentx import metrics
from conversations.context.types import DoesNotFitError
from conversations.contracts import CallUsage
from conversations.events import BlockGrant, ContextReport
from conversations.services.view import Prepared
from conversations.wire import ErrorBody

log = structlog.get_logger(__name__)

# Fixed blocks above this share of the budget leave no conversation: a matter of configuration.
FIXED_SHARE = 0.6


def context_report(prepared: Prepared) -> ContextReport:
    """The ``context`` event of a view that is about to be sent."""
    allocation, record = prepared.view.allocation, prepared.record
    return ContextReport(
        window=allocation.window,
        budget=allocation.budget,
        used=allocation.used,
        tokenizer=allocation.tokenizer,
        blocks=[
            BlockGrant(key=row.key, asked=row.asked, granted=row.granted, action=row.action)
            for row in allocation.grants
        ],
        dropped_turns=allocation.dropped_turns,
        summarized=record["covered_seq"] > 0,
        epoch=allocation.epoch,
        epoch_reason=record["epoch_reason"],
        recalled_turns=sorted({passage["turn"] for passage in record["recalled"]}),
        predicted_cached=allocation.predicted_cached,
    )


def log_budgets(prepared: Prepared) -> None:
    """The two lines of every call, history and prompt, without a word of content."""
    view, snapshot = prepared.view, prepared.snapshot
    allocation = view.allocation
    grants = {row.key: row for row in allocation.grants}
    log.info(
        "context_budget",
        epoch=allocation.epoch,
        history_asked=grants["history"].asked,
        history_granted=grants["history"].granted,
        messages_loaded=len(snapshot.history),
        messages_sent=len(view.history),
        dropped_turns=allocation.dropped_turns,
        covered_seq=snapshot.epoch.covered_seq,
        recalled=len(view.recalled),
        summarized=prepared.record["covered_seq"] > 0,
    )
    fixed = grants["base_prompt"].granted + (grants["tools"].granted if "tools" in grants else 0)
    log.info(
        "prompt_budget",
        budget=allocation.budget,
        window=allocation.window,
        system=grants["base_prompt"].granted,
        tools=fixed - grants["base_prompt"].granted,
        used=allocation.used,
        response=allocation.response,
        calibration=round(allocation.calibration, 3),
        predicted_cached=allocation.predicted_cached,
    )
    if fixed > allocation.budget * FIXED_SHARE:
        _complain_of_fixed_blocks(fixed, allocation.budget)


@cache
def _complain_of_fixed_blocks(fixed: int, budget: int) -> None:
    """Once a process for the same figures: it is a matter of configuration, and every turn would repeat it."""
    log.error("fixed_blocks_too_large", fixed=fixed, budget=budget, remedy="a larger window, or fewer tools")


def log_call(call: CallUsage) -> None:
    """One line and the figures of a model call: what it cost and how long it took."""
    metrics.call_count(
        model=call.model,
        prompt_tokens=call.prompt_tokens,
        cached_tokens=call.cached_tokens,
        output_tokens=call.output_tokens,
    )
    log.info(
        "model_call",
        model=call.model,
        provider=call.provider,
        prefill_ms=call.first_token_ms,
        ms=call.total_ms,
        prompt_tokens=call.prompt_tokens,
        cached_tokens=call.cached_tokens,
        predicted_cached_tokens=call.predicted_cached_tokens,
        estimated_prompt_tokens=call.estimated_prompt_tokens,
        output_tokens=call.output_tokens,
        reasoning_tokens=call.reasoning_tokens,
        finish_reason=call.finish_reason,
    )


def does_not_fit_body(failure: DoesNotFitError) -> ErrorBody:
    """The error of a run whose request cannot fit: every block with its tokens, the largest, and what to do."""
    largest = max(failure.needs, key=lambda key: failure.needs[key])
    over = sum(failure.needs.values()) - failure.budget
    text = str(failure)
    fixed = failure.needs.get("base_prompt", 0) + failure.needs.get("tools", 0)
    if fixed > failure.budget:
        advice = "The operator must choose a model with a larger window, or fewer tools."
    elif largest == "question":
        advice = "Shorten the message, or send it in parts."
    else:
        advice = "Ask for less at once, or start a new conversation."
    return ErrorBody(
        code="does_not_fit",
        message=f"{text[0].upper()}{text[1:]}: {over:,} too many, most of them for {largest}. {advice}",
        retryable=False,
        details={"needs": failure.needs, "budget": failure.budget, "largest": largest},
    )
