"""Errors as problem details (RFC 9457): the one translation from exceptions to what a client reads.

REST views, plain Django views and Django's own error pages under ``/api/`` all answer through this module, so that a
client needs one parser for everything that goes wrong, and no path leads to an HTML page or an exception's own words.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import django.db
import orjson
import structlog
from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.http import Http404, HttpResponse
from django.http.multipartparser import MultiPartParserError
from pydantic import ConfigDict, Field
from rest_framework import exceptions as drf

from agentx.errors import (
    AgentXError,
    Forbidden,
    InvalidInput,
    NotAuthenticated,
    NotFound,
    RequestError,
    TooLarge,
    TooMany,
    Unavailable,
)
from agentx.wire import Wire

log = structlog.get_logger(__name__)

CONTENT_TYPE = "application/problem+json"


class Problem(Wire):
    """An error. ``code`` is stable; ``detail`` is one sentence for a person; ``retryable``: may succeed unchanged.

    ``errors`` maps field names to sentences. Some codes carry more: ``run_active`` has ``run_id``, ``head_moved`` has
    ``head``, ``does_not_fit`` has ``needed``, ``budget`` and ``largest`` in tokens.
    """

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_serialization_defaults_required=False)

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    request_id: str
    errors: dict[str, list[str]] | None = None
    run_id: str | None = None
    head: int | None = None
    needed: int | None = Field(default=None, description="tokens")
    budget: int | None = Field(default=None, description="tokens")
    largest: str | None = None


class MethodNotAllowed(RequestError):
    """``details["allowed"]``: the methods that are."""

    code = "method_not_allowed"
    status = 405
    title = "This address does not take that method"


class UnsupportedMediaType(RequestError):
    code = "unsupported_media_type"
    status = 415
    title = "Send the body as application/json"


def problems(*statuses: int) -> dict[tuple[int, str], type[Problem]]:
    """Problem answers as the schema takes them: status and media type to body."""
    return {(status, CONTENT_TYPE): Problem for status in statuses}


def current_request_id() -> str:
    """The id of the request being served; a fresh one outside of requests."""
    return structlog.contextvars.get_contextvars().get("request_id") or uuid4().hex


def problem_response(error: AgentXError) -> HttpResponse:
    """The answer for an error of ours."""
    body: dict[str, Any] = {
        **error.details,
        "type": f"urn:agentx:error:{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.message,
        "code": error.code,
        "retryable": error.retryable,
        "request_id": current_request_id(),
    }
    if isinstance(error, InvalidInput) and error.errors:
        body["errors"] = error.errors
    response = HttpResponse(orjson.dumps(body, default=str), status=error.status, content_type=CONTENT_TYPE)
    if isinstance(error, TooMany):
        response["Retry-After"] = str(max(1, error.retry_after))
    if isinstance(error, Unavailable):
        response["Retry-After"] = "1"
    if isinstance(error, NotAuthenticated):
        response["WWW-Authenticate"] = 'Bearer realm="api"'
    if isinstance(error, MethodNotAllowed) and error.details.get("allowed"):
        response["Allow"] = ", ".join(error.details["allowed"])
    return response


def translate_exception(error: BaseException) -> AgentXError:
    """Any exception as one of ours. What nobody foresaw is logged with its traceback and becomes a plain 500."""
    if isinstance(error, AgentXError):
        return error
    if isinstance(error, drf.APIException):
        return _translate_framework(error)
    if isinstance(error, Http404):
        return NotFound()
    if isinstance(error, PermissionDenied):
        return Forbidden()
    if isinstance(error, RequestDataTooBig):
        return TooLarge()
    if isinstance(error, SuspiciousOperation | BadRequest | MultiPartParserError | UnicodeError):
        return RequestError("The request is malformed")
    if isinstance(error, django.db.DataError):
        return InvalidInput("A value cannot be stored: it is too large or has characters that are not text")
    if isinstance(error, django.db.OperationalError | django.db.InterfaceError):
        # Away, out of connections, or a lock that is held: all of them pass.
        log.warning("database_unavailable", error=type(error).__name__, cause=type(error.__cause__).__name__)
        return Unavailable()
    log.error("request_failed", exc_info=error)
    return AgentXError()


def _translate_framework(error: drf.APIException) -> AgentXError:
    if isinstance(error, drf.NotAuthenticated | drf.AuthenticationFailed):
        return NotAuthenticated()
    if isinstance(error, drf.PermissionDenied):
        return Forbidden(str(error.detail))
    if isinstance(error, drf.NotFound):
        return NotFound()
    if isinstance(error, drf.MethodNotAllowed):
        return MethodNotAllowed()
    if isinstance(error, drf.UnsupportedMediaType):
        return UnsupportedMediaType()
    if isinstance(error, drf.Throttled):
        return TooMany(retry_after=int(error.wait or 1))
    if error.status_code >= 500:
        log.error("request_failed", exc_info=error)
        return AgentXError()
    return RequestError("The request is malformed")
