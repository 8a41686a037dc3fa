"""What model calls cost: the provider's own figure, else an estimate; and the rows that usage reports add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar
from uuid import UUID

from agentx.llm.messages import UsageReport
from agentx.llm.prices import Prices, estimate_cost
from conversations.contracts import CallUsage
from conversations.models import ModelCall, ModelRecord
from conversations.wire import REFUSED, KnownUsageBody, UsageBody

Figure = TypeVar("Figure", int, Decimal)


@dataclass(frozen=True, slots=True)
class PricedCall:
    """A call with its cost in dollars; None where it is not known. ``source``: ``provider``, ``estimate`` or empty."""

    call: CallUsage
    cost: Decimal | None
    source: str


def price_calls(calls: Sequence[CallUsage]) -> tuple[PricedCall, ...]:
    """The calls with what they cost. A call that was refused costs nothing. One query where any has to be estimated."""
    asked = {call.model for call in calls if call.billed is None and call.finish_reason != REFUSED}
    own = _own_prices(asked) if asked else {}
    return tuple(_price(call, own.get(call.model)) for call in calls)


def _price(call: CallUsage, own: Prices | None) -> PricedCall:
    if call.finish_reason == REFUSED:
        return PricedCall(call, Decimal(0), ModelCall.CostSource.ESTIMATE)
    if call.billed is not None:
        return PricedCall(call, _rounded(Decimal(str(call.billed))), ModelCall.CostSource.PROVIDER)
    usage = UsageReport(
        prompt_tokens=call.prompt_tokens,
        cached_tokens=call.cached_tokens,
        output_tokens=call.output_tokens,
        reasoning_tokens=call.reasoning_tokens,
    )
    cost = estimate_cost(model=call.model, base_url=call.base_url, usage=usage, own=own)
    if cost is None:
        return PricedCall(call, None, ModelCall.CostSource.UNKNOWN)
    return PricedCall(call, _rounded(cost), ModelCall.CostSource.ESTIMATE)


def _own_prices(models: Iterable[str]) -> dict[str, Prices]:
    """Operators' prices, of models for which both the prompt and the answer have one."""
    rows = ModelRecord.objects.filter(
        model_id__in=models, input_price__isnull=False, output_price__isnull=False
    )
    return {
        row.model_id: Prices(input=row.input_price, output=row.output_price, cached=row.cached_price)
        for row in rows
        if row.input_price is not None and row.output_price is not None
    }


def _rounded(cost: Decimal) -> Decimal:
    return cost.quantize(Decimal("1e-10"))


def sum_usage(priced: Sequence[PricedCall]) -> UsageBody:
    """Figures over all calls that a provider took.

    A total is None when any of them lacks it, and then ``known`` has the part that is known, where there is one. ``usage_complete`` speaks of
    tokens alone: a call without a price may well have been counted.
    """
    taken = [item for item in priced if item.call.finish_reason != REFUSED]
    prompt = _total([item.call.prompt_tokens for item in taken])
    output = _total([item.call.output_tokens for item in taken])
    cached = _total([item.call.cached_tokens for item in taken])
    reasoning = _total([item.call.reasoning_tokens for item in taken])
    cost = _total([item.cost for item in taken])
    complete = prompt is not None and output is not None
    priced_any = any(item.cost is not None for item in taken)
    estimated = any(item.source != ModelCall.CostSource.PROVIDER for item in taken)
    return UsageBody(
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=output,
        reasoning_tokens=reasoning,
        usage_complete=complete,
        cost=None if cost is None else float(cost),
        cost_source=None if cost is None else "estimate" if estimated else "provider",
        known=_known(taken) if taken and (not complete or (cost is None and priced_any)) else None,
    )


def _known(taken: Sequence[PricedCall]) -> KnownUsageBody:
    reported = [item for item in taken if item.call.prompt_tokens is not None]
    costs = [item.cost for item in taken if item.cost is not None]
    return KnownUsageBody(
        calls=len(taken),
        reported=len(reported),
        prompt_tokens=sum(item.call.prompt_tokens or 0 for item in taken),
        output_tokens=sum(item.call.output_tokens or 0 for item in taken),
        cost=float(sum(costs)) if costs else None,
    )


def _total(values: Sequence[Figure | None]) -> Figure | None:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return sum(known[1:], start=known[0])


def model_calls_store(
    *,
    priced: Sequence[PricedCall],
    user_id: int,
    conversation_id: UUID | None,
    run_id: UUID | None,
    purpose: str = ModelCall.Purpose.CHAT,
) -> None:
    """Count every call once: a second insert of the same call of a run is ignored by its key.

    ``conversation_id``: None for a call whose conversation is gone, which was paid for all the same.
    """
    ModelCall.objects.bulk_create(
        [
            ModelCall(
                user_id=user_id,
                conversation_id=conversation_id,
                run_id=run_id,
                call_index=item.call.call_index,
                purpose=purpose,
                model=item.call.model,
                provider=item.call.provider,
                prompt_tokens=item.call.prompt_tokens,
                cached_tokens=item.call.cached_tokens,
                output_tokens=item.call.output_tokens,
                reasoning_tokens=item.call.reasoning_tokens,
                estimated_prompt_tokens=item.call.estimated_prompt_tokens,
                predicted_cached_tokens=item.call.predicted_cached_tokens,
                cost=item.cost,
                cost_source=item.source,
                first_token_ms=item.call.first_token_ms,
                total_ms=item.call.total_ms,
                finish_reason=item.call.finish_reason,
            )
            for item in priced
        ],
        ignore_conflicts=True,
    )
