"""``manage.py chat "…"``: a turn from the terminal, by the same services as every other door."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from typing import Any
from uuid import UUID

import orjson
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentx.errors import AgentXError
from agentx.threads import in_db_thread
from conversations.services.attach import Item, run_follow
from conversations.services.cancel import run_cancel
from conversations.services.conversations import conversation_create
from conversations.services.submit import turn_submit
from conversations.wire import TurnAcceptedBody, TurnIn


class Command(BaseCommand):
    help = "Send a message and stream the answer. Ctrl-C stops the answer; what had come is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("message", help="what to say; - reads it from standard input")
        parser.add_argument(
            "--conversation", type=UUID, help="go on in this conversation instead of a new one"
        )
        parser.add_argument("--username", help="on whose behalf; default: the first superuser")
        parser.add_argument("--json", action="store_true", help="print every event as a line of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        text = sys.stdin.read() if options["message"] == "-" else options["message"]
        user = self._user(options["username"])
        try:
            turn = TurnIn(content=text)
            conversation = options["conversation"] or conversation_create(user_id=user.pk).id
            accepted = turn_submit(user_id=user.pk, conversation_id=conversation, content=turn.content)
        except ValueError:
            raise CommandError("The message is blank or has characters that cannot be stored") from None
        except AgentXError as error:
            raise CommandError(error.message) from None
        failed = asyncio.run(self._show(user.pk, accepted, as_json=options["json"]))
        if not options["json"]:
            self.stdout.write("")
            self.stderr.write(f"conversation {accepted.run.conversation_id}")
        if failed:
            raise CommandError(failed)

    def _user(self, username: str | None) -> Any:
        users = get_user_model().objects.filter(is_active=True)
        found = (
            users.filter(username=username) if username else users.filter(is_superuser=True).order_by("pk")
        )
        user = found.first()
        if user is None:
            raise CommandError(
                "There is no such user: create one with manage.py create_user, or start `make run` once"
            )
        return user

    async def _show(self, user_id: int, accepted: TurnAcceptedBody, *, as_json: bool) -> str | None:
        """Print the answer as it comes; returns the error's sentence when there was one."""
        failed = None
        try:
            async with aclosing(run_follow(user_id=user_id, run_id=accepted.run.id)) as items:  # type: ignore[type-var]
                async for item in items:
                    body = orjson.loads(item.payload)
                    if as_json:
                        self.stdout.write(item.payload.decode())
                    else:
                        self._print(item, body)
                    if item.type == "error":
                        failed = body["data"]["message"]
        except asyncio.CancelledError:
            await in_db_thread(run_cancel, user_id=user_id, run_id=accepted.run.id)
            self.stderr.write("\nStopped; what had come is kept.")
        return failed

    def _print(self, item: Item, body: dict[str, Any]) -> None:
        if item.type == "delta":
            self.stdout.write(body["data"]["text"], ending="")
        elif item.type == "reset":
            self.stdout.write(f"\n{body['partial']['text']}", ending="")
        elif item.type == "status" and body["data"]["phase"] in ("waiting", "rate_limited"):
            self.stderr.write(f"[{body['data']['label']}]")
        self.stdout.flush()
