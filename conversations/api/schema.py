"""The OpenAPI schema beyond the endpoints: socket frames and run events, and the page that shows it all.

The browser's types are generated from one file, so everything that crosses the network must be a component of it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from csp.decorators import csp_update
from django.utils.decorators import method_decorator
from drf_spectacular.contrib.pydantic import PydanticExtension
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from conversations.events import EVENT_TYPES, SERVER_FRAMES, ClientCommand

REF = "#/components/schemas/{model}"


class BodyExtension(PydanticExtension):
    """Pydantic bodies as components. In requests a field with a default may be left out; in answers it is there."""

    target_class = "agentx.wire.Wire"
    priority = 1

    def map_serializer(self, auto_schema: Any, direction: str) -> dict[str, Any]:
        mode: JsonSchemaMode = "validation" if direction == "request" else "serialization"
        schema = self.target.model_json_schema(ref_template=REF, mode=mode)
        for name, nested in schema.pop("$defs", {}).items():
            auto_schema.registry.register_on_missing(
                ResolvedComponent(name=name, type=ResolvedComponent.SCHEMA, object=name, schema=nested)
            )
        return schema


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = "agentx.accounts.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "A personal token, `agx_…`"}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "agentx.accounts.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "The session; requests that change something also need the `X-CSRFToken` header",
        }


def add_event_components(result: dict[str, Any], **_more: Any) -> dict[str, Any]:
    """The schema with every event as ``Event<Name>``, and the unions ``RunEvent``, ``ServerFrame``, ``ClientCommand``."""
    components: dict[str, Any] = result["components"]["schemas"]
    out: list[type[BaseModel]] = [*EVENT_TYPES.values(), *SERVER_FRAMES]
    _, definitions = models_json_schema([(model, "serialization") for model in out], ref_template=REF)
    _add(components, definitions.get("$defs", {}))
    for kind, model in EVENT_TYPES.items():
        components[f"Event{model.__name__}"] = _envelope(kind, model)
    components["RunEvent"] = _union({kind: f"Event{model.__name__}" for kind, model in EVENT_TYPES.items()})
    components["ServerFrame"] = _union(
        {str(frame.model_fields["type"].default): frame.__name__ for frame in SERVER_FRAMES}
    )
    commands = TypeAdapter(ClientCommand).json_schema(ref_template=REF, mode="validation")
    _add(components, commands.pop("$defs"))
    components["ClientCommand"] = commands
    result["components"]["schemas"] = dict(sorted(components.items()))
    return result


def _add(components: dict[str, Any], found: dict[str, Any]) -> None:
    for name, schema in found.items():
        components.setdefault(name, schema)


def _envelope(kind: str, model: type[BaseModel]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": model.__doc__ or "",
        "properties": {
            "seq": {"type": "integer", "minimum": 1},
            "type": {"type": "string", "const": kind},
            "run_id": {"type": "string", "format": "uuid"},
            "data": {"$ref": REF.format(model=model.__name__)},
        },
        "required": ["seq", "type", "run_id", "data"],
        "additionalProperties": False,
    }


def _union(names: dict[str, str]) -> dict[str, Any]:
    refs = {kind: REF.format(model=name) for kind, name in names.items()}
    return {
        "oneOf": [{"$ref": ref} for ref in refs.values()],
        "discriminator": {"propertyName": "type", "mapping": refs},
    }


class SchemaView(SpectacularJSONAPIView):
    """The schema as JSON. Public: it says nothing that the sources do not."""

    authentication_classes: ClassVar = []


# The page has one inline <style>, and its scripts come from files of ours; only styles are let in, and only here.
@method_decorator(csp_update({"style-src": ["'unsafe-inline'"], "img-src": ["data:"]}), name="dispatch")
class DocsView(SpectacularSwaggerSplitView):
    """The API as a page to read and try."""

    authentication_classes: ClassVar = []
    url_name = "schema"
