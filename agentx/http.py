"""The HTTP ground under every view: request ids, strict JSON in, fast JSON out, and errors that are always problems.

The stock parts are lenient where it hurts: deeply nested JSON ends in a ``RecursionError``, an oversized body in an HTML
page, and ``NaN`` in the database. Everything here answers such input with a 4xx that says what was wrong.
"""

from __future__ import annotations

import html
import re
from collections.abc import Awaitable, Callable
from typing import IO, Any
from uuid import UUID, uuid4

import orjson
import structlog
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.db import DataError, InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from pydantic import BaseModel
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer

from agentx.admission import leave
from agentx.errors import AgentXError, Forbidden, InvalidInput, NotFound, RequestError, TooLarge, Unavailable
from agentx.problems import MethodNotAllowed, problem_response, translate_exception

GetResponse = Callable[[HttpRequest], Any]

# Deeper than any body of ours by far, and far below what makes a recursive reader fail.
MAX_JSON_DEPTH = 64
_SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,100}")


class RequestContextMiddleware:
    """Gives every request an id: in each log line, in ``request.request_id`` and in the ``X-Request-ID`` header.

    An incoming id is kept when it is 8 to 100 letters, digits, dots, dashes or underscores, so that a proxy's logs and
    ours can be joined, and nobody writes into our logs what they like.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if iscoroutinefunction(self._get_response):
            return self._acall(request)
        with structlog.contextvars.bound_contextvars(request_id=_assign_id(request)):
            return _mark(request, self._get_response(request))

    async def _acall(self, request: HttpRequest) -> HttpResponseBase:
        with structlog.contextvars.bound_contextvars(request_id=_assign_id(request)):
            return _mark(request, await self._get_response(request))

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer what plain views raise from our tree, or from a database that is away; leave the rest to Django."""
        error = translate_exception(exception) if _is_ours(exception) else None
        return None if error is None else error_response(request, error)


def _is_ours(exception: Exception) -> bool:
    return isinstance(exception, AgentXError | DataError | InterfaceError | OperationalError)


def _assign_id(request: HttpRequest) -> str:
    given = request.headers.get("X-Request-ID", "")
    request_id = given if _SANE_REQUEST_ID.fullmatch(given) else uuid4().hex
    request.request_id = request_id  # type: ignore[attr-defined]
    return request_id


def _mark(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    response["X-Request-ID"] = request.request_id  # type: ignore[attr-defined]
    return response


class StrictJSONParser(BaseParser):
    """A JSON object of at most ``DATA_UPLOAD_MAX_MEMORY_SIZE`` bytes and 64 levels, in UTF-8, without ``NaN``."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None
    ) -> dict[str, Any]:
        """The object. Raises ``InvalidInput`` or ``TooLarge``."""
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise TooLarge(f"The body is larger than {limit // 1024:,} KiB")
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise InvalidInput("The body is not valid JSON in UTF-8") from None
        if not isinstance(body, dict):
            raise InvalidInput("The body must be a JSON object")
        require_shallow(body)
        return body


def require_shallow(value: Any, *, depth: int = MAX_JSON_DEPTH) -> None:
    """Refuse containers nested deeper than ``depth``, level by level and so without recursion."""
    level = [value]
    for _ in range(depth + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise InvalidInput(f"The body is nested more than {depth} levels deep")


class OrjsonRenderer(BaseRenderer):
    """JSON bytes of plain data and of pydantic bodies, nested as they like."""

    media_type = "application/json"
    format = "json"
    charset = None  # JSON is UTF-8 by definition, and its media type takes no charset

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None
    ) -> bytes:
        return b"" if data is None else orjson.dumps(data, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def handle_exception(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """The REST framework's hook: every exception of a view as problem details."""
    view = context.get("view")
    translated = translate_exception(error)
    if isinstance(translated, MethodNotAllowed) and view is not None:
        translated = MethodNotAllowed(allowed=view.allowed_methods)
    return problem_response(translated)


def release_connection() -> None:
    """Give this thread's database connection back before a long wait, unless a transaction of the caller holds it, and let
    the next request in."""
    if not connection.in_atomic_block:
        connection.close()
    leave()


# ---- Django's own error pages ---------------------------------------------------------------------------------------


def error_response(request: HttpRequest, error: AgentXError) -> HttpResponse:
    """Problem details under ``/api/``, a small page elsewhere."""
    if request.path.startswith("/api/"):
        return problem_response(error)
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{error.status}</title>'
        f'<h1>{html.escape(error.title)}</h1><p>{html.escape(error.message)}</p><p><a href="/">Back to AgentX</a></p>'
    )
    response = HttpResponse(page, status=error.status)
    if isinstance(error, Unavailable):
        response["Retry-After"] = "1"
    return response


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """``handler400``: a forged host, too many fields, a body that is too large."""
    return error_response(request, RequestError() if exception is None else translate_exception(exception))


def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """``handler403``."""
    return error_response(request, Forbidden())


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """``handler404``."""
    return error_response(request, NotFound())


def server_error(request: HttpRequest) -> HttpResponse:
    """``handler500``: Django has logged the exception."""
    return error_response(request, AgentXError())


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """``CSRF_FAILURE_VIEW``."""
    return error_response(request, Forbidden("The form has expired; reload the page and try again"))
