"""``manage.py settings_table``: the README's table of environment variables, from the code that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand

from agentx.settings.env import VARIABLES, Variable


def render_table(variables: Sequence[Variable]) -> str:
    """A Markdown table, one row a variable, in the order in which they are declared."""
    rows = ["| variable | type | default | meaning |", "|---|---|---|---|"]
    for variable in variables:
        default = "" if variable.default in (None, "") else f"`{_shown(variable.default)}`"
        rows.append(f"| `{variable.name}` | {variable.kind} | {default} | {variable.doc} |")
    return "\n".join(rows)


def _shown(default: Any) -> str:
    return (
        ",".join(default)
        if isinstance(default, list)
        else str(default).lower()
        if isinstance(default, bool)
        else str(default)
    )


class Command(BaseCommand):
    help = "Print the table of environment variables for the README."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(render_table(VARIABLES))
