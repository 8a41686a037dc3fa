"""The web process: HTTP by Django, WebSockets by Channels. It never executes a turn."""

import os
from typing import Any, cast

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentx.settings.dev")
django.setup(set_prefix=False)  # before anything that imports models

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from agentx.handler import OneHopHandler  # noqa: E402
from agentx.process import process_tune  # noqa: E402
from conversations.consumers import ChatConsumer, UnknownPath  # noqa: E402

_sockets = URLRouter(
    [
        path("ws/conversations/<uuid:conversation_id>/", cast(Any, ChatConsumer.as_asgi())),
        re_path(r"", cast(Any, UnknownPath.as_asgi())),
    ]
)

application = ProtocolTypeRouter(
    {"http": OneHopHandler(), "websocket": AllowedHostsOriginValidator(_sockets)}
)

process_tune()
