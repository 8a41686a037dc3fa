"""``manage.py run_turns``: a runner process."""

from __future__ import annotations

import uvloop
from django.core.management.base import BaseCommand

from agentx.process import process_tune
from conversations.runner import runner_main


class Command(BaseCommand):
    help = "Claim queued turns and write their answers until told to stop (SIGTERM drains)."

    def handle(self, *args: object, **options: object) -> None:
        process_tune()
        uvloop.run(runner_main())
