"""Which tools there are, in the order in which models are told of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, cast

from agentx.llm.messages import ToolSchema
from tools.contracts import Role, Tool
from tools.policy import allowed_tools

# Of the arguments as a whole these say nothing: the title is a class's name, the description its docstring.
_OUTER = ("title", "description")


class DuplicateTool(ValueError):
    """Two tools have one name."""


class Registry:
    """Tools by name. Registering a name twice is an error, at start-up rather than in a conversation."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool) -> bool:
        """Add a tool behind those that are there; False where what it needs is missing. Raises ``DuplicateTool``."""
        if tool.name in self._tools:
            raise DuplicateTool(f"the tool {tool.name} is registered twice")
        if tool.needs is not None and not tool.needs():
            return False
        self._tools[tool.name] = tool
        return True

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, in the order of their registration."""
        return tuple(self._tools.values())

    def for_role(self, role: Role) -> tuple[Tool, ...]:
        """Those a person of this role may have used on their behalf: the same ones in the same order each time."""
        return allowed_tools(tools=self.tools, role=role)


def tool_schemas(tools: Iterable[Tool]) -> tuple[ToolSchema, ...]:
    """What a model is told of these tools: byte for byte the same each time."""
    return tuple(_schema(tool) for tool in tools)


@cache
def _schema(tool: Tool) -> ToolSchema:
    parameters = tool.arguments.model_json_schema()
    definitions = parameters.pop("$defs", {})
    plain = cast("dict[str, Any]", _plain(parameters, definitions))
    for name in _OUTER:
        plain.pop(name, None)
    plain.setdefault("properties", {})
    return ToolSchema(name=tool.name, description=tool.description, parameters=plain)


def _plain(value: Any, definitions: Mapping[str, Any]) -> Any:
    """The schema without references, which small servers do not follow, and without titles, which repeat the names."""
    if isinstance(value, list):
        return [_plain(item, definitions) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if (reference := fields.get("$ref")) is not None:
        return _plain(definitions[reference.rsplit("/", 1)[-1]], definitions)
    return {
        key: {name: _plain(item, definitions) for name, item in inner.items()}
        if key == "properties"
        else _plain(inner, definitions)
        for key, inner in fields.items()
        if not (key == "title" and isinstance(inner, str))
    }


@cache
def default_registry() -> Registry:
    """The installation's tools: those whose needs its settings meet."""
    from tools.builtin import BUILTIN  # they stand on selectors, and those on tables, which must be ready

    return Registry(BUILTIN)
