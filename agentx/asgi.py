"""The web process: HTTP by Django, WebSockets by Channels. It never executes a turn."""

import os
from typing import Any, cast

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentx.settings.dev")
_http = get_asgi_application()  # before anything that imports models

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from conversations.consumers import ChatConsumer, UnknownPath  # noqa: E402

_sockets = URLRouter(
    [
        path("ws/conversations/<uuid:conversation_id>/", cast(Any, ChatConsumer.as_asgi())),
        re_path(r"", cast(Any, UnknownPath.as_asgi())),
    ]
)

application = ProtocolTypeRouter({"http": _http, "websocket": AllowedHostsOriginValidator(_sockets)})
