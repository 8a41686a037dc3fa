"""``manage.py reap_runs``: settle what dead runners left, by hand."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db.models.functions import Now

from conversations.models import Run
from conversations.services.leases import runs_reap


class Command(BaseCommand):
    help = "Settle every run whose lease has run out: partial answers are stored and marked interrupted."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count them")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            due = Run.objects.filter(status=Run.Status.RUNNING, lease_until__lt=Now()).count()
            self.stdout.write(f"{due} runs would be settled")
            return
        self.stdout.write(f"{runs_reap()} runs settled")
