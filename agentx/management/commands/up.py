"""``manage.py up``: the whole product on this machine, from databases to the sign-in link."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand

from agentx.embedded.console import Console
from agentx.embedded.stack import StackOptions, run_stack
from agentx.settings.env import data_dir, read


class Command(BaseCommand):
    help = "Start PostgreSQL, Valkey, a local model, web, runner and worker; stop them all with Ctrl-C."
    requires_system_checks = []  # pyright: ignore[reportAssignmentType]

    def handle(self, *args: Any, **options: Any) -> None:
        console = Console()
        try:
            chosen = StackOptions(
                data_dir=data_dir(),
                host=read("AGENTX_HOST"),
                port=read("AGENTX_PORT"),
                drain_seconds=read("RUN_DRAIN_SECONDS"),
                environ=dict(os.environ),
            )
        except ImproperlyConfigured as error:
            console.fail(str(error))
            sys.exit(2)
        sys.exit(run_stack(chosen, console=console))
