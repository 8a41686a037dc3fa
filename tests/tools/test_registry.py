"""The registry: names, order, and what models are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from tools.builtin import BUILTIN
from tools.contracts import Tool, ToolArguments, ToolResult
from tools.registry import DuplicateTool, Registry, default_registry, tool_schemas


class Inner(BaseModel):
    title: str = Field(description="Of the inner one.")


class Arguments(ToolArguments):
    kind: Literal["a", "b"] = "a"
    inner: Inner | None = None


def _tool(name: str, *, admin_only: bool = False) -> Tool:
    return Tool(
        name,
        "Does it.",
        "Doing it",
        "sample",
        Arguments,
        lambda _c, _a: ToolResult("ok"),
        admin_only=admin_only,
    )


def test_registering_a_name_twice_is_an_error():
    registry = Registry([_tool("one")])

    with pytest.raises(DuplicateTool, match="one"):
        registry.register(_tool("one"))


def test_a_tool_whose_need_is_missing_is_not_registered():
    registry = Registry()

    assert registry.register(replace(_tool("one"), needs=lambda: False)) is False
    assert registry.register(replace(_tool("two"), needs=lambda: True)) is True
    assert [tool.name for tool in registry.tools] == ["two"]


def test_tls_05_admin_tools_are_for_admins_alone():
    """TLS-05."""
    registry = Registry([_tool("one"), _tool("secret", admin_only=True), _tool("two")])

    assert [tool.name for tool in registry.for_role("user")] == ["one", "two"]
    assert [tool.name for tool in registry.for_role("admin")] == ["one", "secret", "two"]


def test_a_schema_has_no_references_and_keeps_fields_that_are_called_title():
    [schema] = tool_schemas([_tool("one")])

    assert schema.parameters == {
        "additionalProperties": False,
        "properties": {
            "kind": {"default": "a", "enum": ["a", "b"], "type": "string"},
            "inner": {
                "anyOf": [
                    {
                        "properties": {"title": {"description": "Of the inner one.", "type": "string"}},
                        "required": ["title"],
                        "type": "object",
                    },
                    {"type": "null"},
                ],
                "default": None,
            },
        },
        "type": "object",
    }


def test_tls_02_the_installations_tools_have_one_order():
    """TLS-02."""
    tools = default_registry().for_role("user")

    assert [tool.name for tool in tools] == [
        *("conversation_search", "read_thread", "current_date"),
        *("read_tool_output", "tool_output_query", "tool_output_section", "tool_output_path"),
    ]
    assert tool_schemas(tools) == tool_schemas(list(tools))


def test_every_tool_says_what_it_is_in_one_line():
    for tool in BUILTIN:
        assert tool.description.endswith(".")
        assert "\n" not in tool.description
        assert tool.label
        assert tool.timeout > 0
