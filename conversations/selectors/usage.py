"""What model calls used and cost, by day, model and purpose."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Now, TruncDate

from conversations.models import ModelCall
from conversations.selectors import access
from conversations.wire import REFUSED, UsageReportBody, UsageRowBody

_TOKENS = ("prompt_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")


def usage_report(*, user_id: int, days: int, conversation_id: UUID | None = None) -> UsageReportBody:
    """The user's calls of the last ``days`` times 24 hours. Raises ``NotFound`` for a conversation that is not theirs."""
    calls = ModelCall.objects.filter(user_id=user_id, created_at__gt=Now() - timedelta(days=days))
    if conversation_id is not None:
        conversation = access.conversation_get(user_id=user_id, conversation_id=conversation_id)
        calls = calls.filter(conversation=conversation)
    rows = [UsageRowBody.model_validate(row) for row in summed(calls)]
    known = [row.cost for row in rows if row.cost is not None]
    return UsageReportBody(
        days=days,
        rows=rows,
        calls=sum(row.calls for row in rows),
        unpriced_calls=sum(row.unpriced_calls for row in rows),
        cost=round(sum(known), 10) if known else None,
    )


def summed(calls: QuerySet[ModelCall]) -> list[dict]:
    """The calls by day (UTC), model and purpose, newest day first: the fields of ``UsageRowBody``."""
    taken = calls.exclude(finish_reason=REFUSED).annotate(day=TruncDate("created_at"))
    groups = taken.values("day", "model", "purpose").annotate(
        calls=Count("pk"),
        unreported_calls=Count("pk", filter=Q(prompt_tokens=None) | Q(output_tokens=None)),
        unpriced_calls=Count("pk", filter=Q(cost=None)),
        estimated_calls=Count("pk", filter=Q(cost_source=ModelCall.CostSource.ESTIMATE)),
        total_cost=Sum("cost"),
        **{f"total_{name}": Sum(name) for name in _TOKENS},
    )
    return [
        {
            "day": row["day"],
            "model": row["model"],
            "purpose": row["purpose"],
            "calls": row["calls"],
            "unreported_calls": row["unreported_calls"],
            "unpriced_calls": row["unpriced_calls"],
            "cost": None if row["total_cost"] is None else float(row["total_cost"]),
            "cost_source": _source(row),
            **{name: row[f"total_{name}"] for name in _TOKENS},
        }
        for row in groups.order_by("-day", "model", "purpose")
    ]


def _source(row: dict) -> str | None:
    if row["total_cost"] is None:
        return None
    return "estimate" if row["estimated_calls"] else "provider"
