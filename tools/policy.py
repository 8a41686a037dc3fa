"""Who may use which tools, and what each group of tools is for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tools.contracts import Role, Tool

RoutingMode = Literal["static", "dynamic"]

# The tool by which a model asks for further groups; its name is how its results are told from those of others.
DISCOVERY = "discover_tool_groups"


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """``summary``: what the group is for, for the model. ``core``: always offered. ``keywords``: words of a question, in
    lower case and singular, that ask for the group."""

    summary: str
    core: bool = False
    keywords: frozenset[str] = frozenset()


_SAMPLE_WORDS = frozenset(
    {
        "balance",
        "budget",
        "category",
        "cost",
        "expense",
        "income",
        "inflow",
        "ledger",
        "merchant",
        "money",
        "note",
        "outflow",
        "paid",
        "pay",
        "payment",
        "purchase",
        "refund",
        "rent",
        "salary",
        "spend",
        "spending",
        "spent",
        "transaction",
        "transfer",
        "vault",
    }
)

GROUPS: Mapping[str, GroupPolicy] = MappingProxyType(
    {
        "context": GroupPolicy("Search and read earlier parts of conversations.", core=True),
        "outputs": GroupPolicy("Read parts of long results of earlier calls.", core=True),
        "time": GroupPolicy("The present date and time.", core=True),
        "state": GroupPolicy("Write down goals, decisions and open questions.", core=True),
        "discovery": GroupPolicy("Ask for further groups of tools.", core=True),
        "sample": GroupPolicy(
            "A ledger of transactions and a vault of notes.",
            keywords=_SAMPLE_WORDS,
        ),
    }
)


def allowed_tools(*, tools: Sequence[Tool], role: Role) -> tuple[Tool, ...]:
    """Those that may be used on behalf of a person of this role, in their order."""
    return tuple(tool for tool in tools if role == "admin" or not tool.admin_only)


def name_group(tool: Tool) -> str:
    """The group a tool is chosen by. One whose group has no policy is a group of its own, under its own name."""
    return tool.group if tool.group in GROUPS else tool.name


def find_policy(tool: Tool) -> GroupPolicy:
    """The policy of a tool's group; a tool that is a group of its own is asked for by the words of its name."""
    known = GROUPS.get(tool.group)
    if known is not None:
        return known
    words = (singular(word) for word in re.split(r"[_\W]+", tool.name.casefold()))
    return GroupPolicy(tool.description, keywords=frozenset(word for word in words if len(word) > 2))


def singular(word: str) -> str:
    """A plain English plural without its ending; other words as they are."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
