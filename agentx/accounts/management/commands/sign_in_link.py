"""``manage.py sign_in_link``: a link that signs somebody in once, for the first start and for lost passwords."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentx.accounts import selectors, services
from agentx.errors import NotFound
from agentx.settings.env import data_dir, read


class Command(BaseCommand):
    help = "Print a one-time sign-in link. On an installation without users it creates the superuser 'owner'."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--username", help="whose link; default: the first superuser")
        parser.add_argument("--base-url", help="where the site is; default: from AGENTX_HOST and AGENTX_PORT")
        parser.add_argument("--json", action="store_true", help="print one JSON object with url and username")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            name = options["username"]
            user = selectors.user_by_name(username=name) if name else services.owner_ensure()
        except NotFound as error:
            raise CommandError(error.message) from None
        base = (options["base_url"] or default_base_url()).rstrip("/")
        url = f"{base}/sign-in/{services.link_create(user_id=user.pk)}/"
        if options["json"]:
            self.stdout.write(json.dumps({"url": url, "username": user.get_username()}))
        else:
            self.stdout.write(f"Sign in as {user.get_username()}: {url}")


def _running_url() -> str | None:
    """The address of the instance that runs on this data folder, which may have been started on another port."""
    try:
        return str(json.loads((data_dir() / "run" / "ready.json").read_text())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def default_base_url() -> str:
    """The address a browser on this machine would use; one that means "all interfaces" is shown as loopback."""
    running = _running_url()
    if running:
        return running
    host: str = read("AGENTX_HOST")
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host) or host or "127.0.0.1"
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{read('AGENTX_PORT')}"
