"""Which models would be asked, in order, without asking any."""

from __future__ import annotations

from django.core.management.base import BaseCommand

from agentx.llm.routes import ROLES, ModelRoute
from agentx.model_routes import chat_routes, role_routes


class Command(BaseCommand):
    """``manage.py model_routes``: one line a candidate, for conversations and for each role."""

    help = "List the candidates for conversations and for each role, in the order in which they are asked."

    def handle(self, *args: object, **options: object) -> None:
        self._list("conversations", chat_routes())
        for role in ROLES:
            self._list(role, role_routes(role))

    def _list(self, name: str, routes: tuple[ModelRoute, ...]) -> None:
        self.stdout.write(f"{name}:")
        for number, route in enumerate(routes, start=1):
            key = "with a key" if route.api_key else "without a key"
            self.stdout.write(f"  {number}. {route.model} at {route.base_url} ({key})")
