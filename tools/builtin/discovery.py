"""``discover_tool_groups``: how a model that was offered a choice of tools asks for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.conf import settings
from pydantic import Field

from tools.contracts import Role, Tool, ToolArguments, ToolContext, ToolFailure, ToolResult
from tools.policy import DISCOVERY, allowed_tools, find_policy, name_group


class DiscoveryArguments(ToolArguments):
    groups: list[str] = Field(
        default_factory=list,
        max_length=20,
        description="Names of groups whose tools are wanted; without any, the groups are listed.",
    )


def make_discovery(tools: Callable[[], Sequence[Tool]]) -> Tool:
    """The tool over the groups of ``tools``, which is asked at each call.

    What it grants lies in the result of its call and nowhere else: it holds for the rest of that turn.
    """

    def run(context: ToolContext, arguments: DiscoveryArguments) -> ToolResult:
        groups = _groups(tools(), context.role)
        if not arguments.groups:
            return _list(groups)
        unknown = [name for name in arguments.groups if name not in groups]
        if unknown:
            raise ToolFailure(f"There is no such group of tools. The groups are: {', '.join(groups)}.")
        granted = list(dict.fromkeys(arguments.groups))
        names = [tool.name for group in granted for tool in groups[group]]
        text = f"From your next reply on you can call: {', '.join(names)}."
        return ToolResult(content=text, artifact={"note": text, "granted": granted})

    return Tool(
        name=DISCOVERY,
        description="List the groups of tools there are, or ask for the tools of some of them for this turn.",
        label="Looking for tools",
        group="discovery",
        arguments=DiscoveryArguments,
        run=run,
        needs=lambda: settings.TOOL_ROUTING_MODE == "dynamic",
    )


def _groups(tools: Sequence[Tool], role: Role) -> dict[str, list[Tool]]:
    groups: dict[str, list[Tool]] = {}
    for tool in allowed_tools(tools=tools, role=role):
        if tool.name != DISCOVERY:
            groups.setdefault(name_group(tool), []).append(tool)
    return groups


def _list(groups: dict[str, list[Tool]]) -> ToolResult:
    rows = [
        {
            "group": name,
            "summary": find_policy(members[0]).summary,
            "tools": [tool.name for tool in members],
        }
        for name, members in groups.items()
    ]
    lines = [f"{row['group']}: {row['summary']} ({', '.join(row['tools'])})" for row in rows]
    return ToolResult(content="\n".join(lines), artifact={"groups": rows})
