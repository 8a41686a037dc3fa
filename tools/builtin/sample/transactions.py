"""``sample_transactions`` and ``sample_spending_summary``: rows and sums of the made-up ledger as structured results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Literal

from pydantic import Field

from tools.builtin.sample.ledger import (
    FIRST_DAY,
    LAST_DAY,
    Account,
    Category,
    Kind,
    Totals,
    Transaction,
    add_up,
    find_transactions,
    list_months,
)
from tools.builtin.sample.offered import wants_samples
from tools.contracts import Tool, ToolArguments, ToolContext, ToolFailure, ToolResult

CURRENCY = "EUR"
SOURCE = "sample-ledger"


class LedgerArguments(ToolArguments):
    date_from: date = Field(default=FIRST_DAY, description="First day, YYYY-MM-DD.")
    date_to: date = Field(default=LAST_DAY, description="Last day, YYYY-MM-DD.")
    account: Account | None = None
    category: Category | None = None


class TransactionArguments(LedgerArguments):
    kind: Kind | None = None
    merchant: str = Field(default="", max_length=100, description="Part of a merchant's name.")
    limit: int = Field(default=50, ge=1, le=500)
    offset: int = Field(default=0, ge=0, le=100_000)


class SummaryArguments(LedgerArguments):
    group_by: Literal["month", "category", "account", "merchant"] = "month"


def _transactions(_context: ToolContext, arguments: TransactionArguments) -> ToolResult:
    _check_order(arguments)
    found = find_transactions(
        first=arguments.date_from,
        last=arguments.date_to,
        account=arguments.account,
        category=arguments.category,
        kind=arguments.kind,
        text=arguments.merchant,
    )
    if not found:
        return ToolResult(content=f"No transaction matches. The ledger goes from {FIRST_DAY} to {LAST_DAY}.")
    shown = found[arguments.offset : arguments.offset + arguments.limit]
    totals = add_up(found)
    artifact = {
        "kind": "transactions",
        "filters": _filters(arguments),
        "currency": CURRENCY,
        "totals": _totals(totals),
        "returned": len(shown),
        "source_refs": [SOURCE],
        "transactions": [_row(row) for row in shown],
    }
    lines = [f"{len(shown)} of {totals.count} transactions. {_say(totals)}"]
    lines += [
        f"{row.id}  {row.day}  {row.account}  {row.category}  {row.merchant}  {money(row.cents)}"
        for row in shown
    ]
    return ToolResult(content="\n".join(lines), artifact=artifact)


def _summary(_context: ToolContext, arguments: SummaryArguments) -> ToolResult:
    _check_order(arguments)
    first, last = max(arguments.date_from, FIRST_DAY), min(arguments.date_to, LAST_DAY)
    months = list_months(first, last)
    if not months:
        return ToolResult(content=f"The ledger goes from {FIRST_DAY} to {LAST_DAY}; these days lie outside.")
    found = find_transactions(first=first, last=last, account=arguments.account, category=arguments.category)
    totals = add_up(found)
    groups = _group(found, arguments.group_by, months)
    average = {
        "months": len(months),
        "outflows": money(_divide(totals.outflows, len(months))),
        "inflows": money(_divide(totals.inflows, len(months))),
    }
    artifact = {
        "kind": "spending_summary",
        "filters": _filters(arguments),
        "currency": CURRENCY,
        "totals": _totals(totals),
        "monthly_average_total": average,
        "source_refs": [SOURCE],
        "groups": [{arguments.group_by: name, **_totals(add_up(rows))} for name, rows in groups.items()],
    }
    head = f"{first} to {last}: {_say(totals)} A month on average, over {len(months)}: {average['outflows']} out."
    lines = [head, *(f"{name}: {_say(add_up(rows))}" for name, rows in groups.items())]
    return ToolResult(content="\n".join(lines), artifact=artifact)


def _check_order(arguments: LedgerArguments) -> None:
    if arguments.date_from > arguments.date_to:
        raise ToolFailure(f"date_from {arguments.date_from} lies after date_to {arguments.date_to}.")


def _group(rows: Sequence[Transaction], by: str, months: Sequence[str]) -> dict[str, list[Transaction]]:
    """Months in order, the empty ones too; other groups by name."""
    read: dict[str, Callable[[Transaction], str]] = {
        "month": lambda row: f"{row.day:%Y-%m}",
        "category": lambda row: row.category,
        "account": lambda row: row.account,
        "merchant": lambda row: row.merchant,
    }
    names = months if by == "month" else sorted({read[by](row) for row in rows})
    groups: dict[str, list[Transaction]] = {name: [] for name in names}
    for row in rows:
        groups[read[by](row)].append(row)
    return groups


def _filters(arguments: LedgerArguments) -> dict[str, object]:
    return arguments.model_dump(mode="json", exclude_none=True, exclude={"limit"})


def _totals(totals: Totals) -> dict[str, object]:
    return {
        "count": totals.count,
        "gross_outflows": money(totals.outflows),
        "inflows": money(totals.inflows),
        "refunds": money(totals.refunds),
        "net": money(totals.net),
        "transferred": money(totals.transferred),
    }


def _row(row: Transaction) -> dict[str, object]:
    return {
        "id": row.id,
        "date": row.day.isoformat(),
        "account": row.account,
        "kind": row.kind,
        "category": row.category,
        "merchant": row.merchant,
        "amount": money(row.cents),
    }


def _say(totals: Totals) -> str:
    return (
        f"{totals.count} transactions, {money(totals.outflows)} out, {money(totals.inflows)} in"
        f" ({money(totals.refunds)} of it refunds), net {money(totals.net)} {CURRENCY}."
    )


def money(cents: int) -> str:
    """Exact, with two decimals: sums of binary fractions would not be."""
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def _divide(cents: int, by: int) -> int:
    """To the nearest cent, halves up."""
    return (2 * cents + by) // (2 * by)


SAMPLE_TRANSACTIONS = Tool(
    name="sample_transactions",
    description="List transactions of the sample ledger with their totals.",
    label="Reading transactions",
    group="sample",
    arguments=TransactionArguments,
    run=_transactions,
    needs=wants_samples,
)
SAMPLE_SPENDING_SUMMARY = Tool(
    name="sample_spending_summary",
    description="Add up the sample ledger by month, category, account or merchant, with monthly averages.",
    label="Adding up transactions",
    group="sample",
    arguments=SummaryArguments,
    run=_summary,
    needs=wants_samples,
)
