"""Django's door for ASGI with one thread hop for a request instead of one for each hook of each middleware.

Our views are synchronous and so is all that stands around them. Loaded for an asynchronous server, Django's middleware goes
back and forth between the event loop and a thread about a dozen times; loaded as it is for a synchronous one, a request
goes into its thread once, and streams still come out of the event loop. ADR 12 has the figures.
"""

from __future__ import annotations

from typing import Any, cast

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class OneHopHandler(ASGIHandler):
    """Requests in a thread of their own from the first middleware to the last; the rest is Django's."""

    def __init__(self) -> None:
        BaseHandler.__init__(self)
        cast("Any", self).load_middleware(is_async=False)  # a parameter that the type stubs do not have

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)
