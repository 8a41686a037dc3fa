"""A made-up ledger of one year, the same on every machine, and the sums over it.

Amounts are whole cents. Money that only moves between the ledger's own accounts is neither spent nor earned, and a refund
is money that comes in: it does not make the purchase smaller. So what went out, what came in and what remains are three
figures, and none of them is hidden in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Literal

Account = Literal["checking", "savings", "card"]
Kind = Literal["purchase", "refund", "income", "transfer"]
Category = Literal[
    "housing", "energy", "groceries", "transport", "dining", "leisure", "travel", "salary", "transfer"
]

YEAR = 2025
FIRST_DAY, LAST_DAY = date(YEAR, 1, 1), date(YEAR, 12, 31)


@dataclass(frozen=True, slots=True)
class Transaction:
    """``cents``: negative for money that leaves the account."""

    id: str
    day: date
    account: Account
    kind: Kind
    category: Category
    merchant: str
    cents: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Cents, all positive but ``net`` = ``inflows`` − ``outflows``. ``refunds`` are part of ``inflows``; ``transferred`` is
    what went out to other accounts of the same person and is part of no other figure."""

    count: int
    outflows: int
    inflows: int
    refunds: int
    net: int
    transferred: int


@cache
def ledger() -> tuple[Transaction, ...]:
    """Every transaction, in order of the day. Ids count in that order."""
    rows = sorted(
        (row for month in range(1, 13) for row in (*_regular(month), *_shopping(month))),
        key=lambda row: (row[0], row[4]),
    )
    return tuple(
        Transaction(f"txn-{YEAR}-{number:04d}", day, account, kind, category, merchant, cents)
        for number, (day, account, kind, category, merchant, cents) in enumerate(rows, 1)
    )


_Row = tuple[date, Account, Kind, Category, str, int]


def _regular(month: int) -> Iterator[_Row]:
    yield date(YEAR, month, 1), "checking", "purchase", "housing", "Lindenhof Apartments", -112_000
    yield date(YEAR, month, 3), "checking", "purchase", "transport", "City Transit", -4_900
    winter = abs(month - 7)  # 0 in July, 6 in January
    yield date(YEAR, month, 5), "checking", "purchase", "energy", "Northwind Energy", -(5_460 + 612 * winter)
    yield date(YEAR, month, 25), "checking", "income", "salary", "Aldermoor Studio", 315_000
    yield date(YEAR, month, 26), "checking", "transfer", "transfer", "To savings", -40_000
    yield date(YEAR, month, 26), "savings", "transfer", "transfer", "From checking", 40_000


def _shopping(month: int) -> Iterator[_Row]:
    shops = ("Green Basket", "Corner Market", "Mill Street Bakery")
    for day in range(2 + month % 4, 29, 4):
        cents = 1_835 + (month * 379 + day * 523) % 5_400
        yield date(YEAR, month, day), "card", "purchase", "groceries", shops[(day + month) % 3], -cents
    for day in (9, 23):
        cents = 2_150 + (month * 211 + day * 97) % 3_300
        place = "Noodle House" if day == 9 else "Café Aurora"
        yield date(YEAR, month, day), "card", "purchase", "dining", place, -cents
    yield from _ONCE.get(month, ())


_ONCE: dict[int, tuple[_Row, ...]] = {
    3: ((date(YEAR, 3, 14), "card", "purchase", "leisure", "Spoke & Chain Bicycles", -64_900),),
    4: ((date(YEAR, 4, 2), "card", "refund", "leisure", "Spoke & Chain Bicycles", 12_000),),
    7: (
        (date(YEAR, 7, 11), "card", "purchase", "travel", "Blue Ferry Lines", -23_800),
        (date(YEAR, 7, 12), "card", "purchase", "travel", "Harbour View Hotel", -71_250),
    ),
    9: ((date(YEAR, 9, 18), "card", "purchase", "leisure", "Trailhead Outfitters", -8_990),),
    10: ((date(YEAR, 10, 6), "card", "refund", "leisure", "Trailhead Outfitters", 8_990),),
}


def add_up(rows: Iterable[Transaction]) -> Totals:
    """The figures over ``rows``."""
    count = outflows = inflows = refunds = transferred = 0
    for row in rows:
        count += 1
        if row.kind == "transfer":
            transferred += max(0, -row.cents)
        elif row.cents < 0:
            outflows -= row.cents
        else:
            inflows += row.cents
            refunds += row.cents if row.kind == "refund" else 0
    return Totals(count, outflows, inflows, refunds, inflows - outflows, transferred)


def list_months(first: date, last: date) -> tuple[str, ...]:
    """Every calendar month from ``first`` to ``last`` as ``YYYY-MM``, those without any transaction too."""
    months: list[str] = []
    year, month = first.year, first.month
    while (year, month) <= (last.year, last.month):
        months.append(f"{year:04d}-{month:02d}")
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
    return tuple(months)


def find_transactions(
    *,
    first: date = FIRST_DAY,
    last: date = LAST_DAY,
    account: Account | None = None,
    category: Category | None = None,
    kind: Kind | None = None,
    text: str = "",
) -> Sequence[Transaction]:
    """Those from ``first`` to ``last``, both included, to which everything given applies. ``text``: part of the merchant."""
    wanted = text.casefold()
    return [
        row
        for row in ledger()
        if first <= row.day <= last
        and (account is None or row.account == account)
        and (category is None or row.category == category)
        and (kind is None or row.kind == kind)
        and wanted in row.merchant.casefold()
    ]
