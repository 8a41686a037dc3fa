"""What every REST view stands on: the base class, and typed reading of bodies and query strings.

Apart from ``agentx.http``, whose parser and renderer the REST framework imports while it defines its own base view.
"""

from __future__ import annotations

from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.views import APIView

from agentx.errors import InvalidInput

Model = TypeVar("Model", bound=BaseModel)


class OneRenderer(BaseContentNegotiation):
    """There is one answer format, so ``Accept`` is not asked: event streams and problems share addresses with JSON."""

    def select_parser(self, request: Request, parsers: list[Any]) -> Any:
        given = (request.content_type or "").split(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == given), None)

    def select_renderer(
        self, request: Request, renderers: list[Any], format_suffix: str | None = None
    ) -> Any:
        return renderers[0], renderers[0].media_type


class ApiView(APIView):
    """Base of every JSON endpoint."""

    content_negotiation_class = OneRenderer


def parse_body(model: type[Model], request: Request, **more: Any) -> Model:
    """The request's JSON body as ``model``; ``more`` adds fields that came by header. Raises ``InvalidInput``."""
    data = request.data
    if not isinstance(data, dict) or hasattr(data, "getlist"):
        raise InvalidInput("The body must be a JSON object")
    try:
        # Through JSON once more: only there does strict mode know that an id or a time arrives as a string.
        return model.model_validate_json(orjson.dumps({**data, **more}), strict=True)
    except ValidationError as error:
        raise InvalidInput(errors=field_errors(error)) from None


def parse_query(model: type[Model], request: Request) -> Model:
    """The query string as ``model``: unknown and repeated parameters are refused. Raises ``InvalidInput``."""
    query = request.query_params
    repeated = {name: ["must be given once"] for name in query if len(query.getlist(name)) > 1}
    if repeated:
        raise InvalidInput(errors=repeated)
    try:
        return model.model_validate(query.dict())
    except ValidationError as error:
        raise InvalidInput(errors=field_errors(error)) from None


def field_errors(error: ValidationError) -> dict[str, list[str]]:
    """Sentences by dotted field name; what concerns the whole body stands under ``body``."""
    found: dict[str, list[str]] = {}
    for item in error.errors(include_url=False, include_input=False, include_context=False):
        where = ".".join(str(part) for part in item["loc"]) or "body"
        where = where.encode("utf-8", "replace").decode()
        found.setdefault(where, []).append(item["msg"].removeprefix("Value error, "))
    return found
