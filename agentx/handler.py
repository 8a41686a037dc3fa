"""Django's door for ASGI with one thread hop for a request instead of one for each hook of each middleware.

Our views are synchronous and so is all that stands around them. Loaded for an asynchronous server, Django's middleware goes
back and forth between the event loop and a thread about a dozen times; loaded as it is for a synchronous one, a request
goes into its thread once, and streams still come out of the event loop. ADR 12 has the figures.
"""

from __future__ import annotations

from typing import Any, cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.base import BaseHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from agentx.admission import Admission
from agentx.errors import Unavailable
from agentx.http import error_response

# Whoever watches this process must hear from it also when it is full.
ALWAYS_ANSWERED = ("/api/health",)


class OneHopHandler(ASGIHandler):
    """Requests in a thread of their own from the first middleware to the last; the rest is Django's."""

    def __init__(self) -> None:
        BaseHandler.__init__(self)
        cast("Any", self).load_middleware(is_async=False)  # a parameter that the type stubs do not have
        pool = settings.DATABASES["default"]["OPTIONS"]["pool"]
        self._admission = Admission(at_most=pool["max_size"])

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info in ALWAYS_ANSWERED:
            return await self._answer(request)
        try:
            async with self._admission.admitted():
                return await self._answer(request)
        except Unavailable as error:
            return error_response(request, error)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)
