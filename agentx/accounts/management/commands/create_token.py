"""``manage.py create_token``: an API token for a script, made without a browser."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentx.accounts import selectors, services
from agentx.errors import RequestError


class Command(BaseCommand):
    help = "Create an API token and print its secret, which is not shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--username", required=True)
        parser.add_argument("--name", required=True, help="what the token is for")
        parser.add_argument("--scope", choices=["read", "write"], default="write")
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object with token, id, name and scope"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            user = selectors.user_by_name(username=options["username"])
            row, secret = services.token_create(user_id=user.pk, name=options["name"], scope=options["scope"])
        except RequestError as error:
            raise CommandError(error.message) from None
        if options["json"]:
            self.stdout.write(
                json.dumps({"token": secret, "id": row.pk, "name": row.name, "scope": row.scope})
            )
        else:
            self.stdout.write(secret)
