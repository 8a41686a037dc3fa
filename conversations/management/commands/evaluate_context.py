"""``manage.py evaluate_context``: does the view keep what it must, with this installation's settings?

Scripted conversations go through the real services on this database, in a transaction that is always rolled back. No model
and no network take part, and the same settings give the same verdict.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from conversations.evaluation.evaluate import Verdict, all_ok, scenario_play
from conversations.evaluation.scenarios import Scenario, all_scenarios
from conversations.models.model_record import LEAST_WINDOW

# The bundled model's window: small enough that every scenario has turns that leave the view.
WINDOW = 8_192
_HEADINGS = (
    "scenario",
    "turns",
    "cuts",
    "facts kept",
    "over budget",
    "prefix breaks",
    "cached",
    "view, median / max",
    "",
)


class Command(BaseCommand):
    help = "Play scripted conversations through the context engine and check what the model would see."

    def add_arguments(self, parser: CommandParser) -> None:
        keys = [scenario.key for scenario in all_scenarios()]
        parser.add_argument(
            "--scenario", choices=keys, action="append", help="only this one; may be repeated"
        )
        parser.add_argument(
            "--window",
            type=int,
            default=WINDOW,
            help=f"the model's window in tokens (default {WINDOW:,}); a smaller forced window goes before it",
        )
        parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["window"] < LEAST_WINDOW:
            raise CommandError(f"--window must be at least {LEAST_WINDOW}")
        chosen = options["scenario"]
        scenarios = [item for item in all_scenarios() if not chosen or item.key in chosen]
        verdicts = [scenario_try(scenario=scenario, window=options["window"]) for scenario in scenarios]
        self.stdout.write(_as_json(verdicts) if options["json"] else _as_table(verdicts))
        if not all_ok(verdicts):
            raise SystemExit(1)


def scenario_try(*, scenario: Scenario, window: int) -> Verdict:
    """One scenario with a user of its own; nothing of it stays."""
    with transaction.atomic():
        owner = get_user_model().objects.create(username=f"evaluation-{uuid4().hex[:12]}")
        verdict = scenario_play(scenario=scenario, owner_id=owner.pk, window=window)
        transaction.set_rollback(True)
    return verdict


def _as_json(verdicts: Sequence[Verdict]) -> str:
    rows = [asdict(verdict) | {"ok": verdict.ok} for verdict in verdicts]
    return json.dumps({"ok": all_ok(verdicts), "scenarios": rows}, indent=2, ensure_ascii=False)


def _as_table(verdicts: Sequence[Verdict]) -> str:
    rows = [_HEADINGS, *(_row(verdict) for verdict in verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    missed = [f"MISSED {verdict.scenario}: {text}" for verdict in verdicts for text in verdict.missed]
    return "\n".join([*lines, *missed])


def _row(verdict: Verdict) -> tuple[str, ...]:
    median, slowest = verdict.milliseconds
    return (
        verdict.scenario,
        str(verdict.turns),
        str(verdict.cuts),
        f"{max(0, verdict.checks - len(verdict.missed))} of {verdict.checks}",
        str(verdict.over_budget),
        str(verdict.prefix_breaks),
        f"{verdict.cached_share:.0%}",
        f"{median:.1f} / {slowest:.1f} ms",
        "ok" if verdict.ok else "MISSED",
    )
