"""What a tool is, what it is told of the turn that calls it, and what it gives back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from agentx.llm.messages import ToolCall

ToolGroup = Literal["context", "outputs", "time", "state", "sample", "discovery"]
Role = Literal["user", "admin"]


class ToolArguments(BaseModel):
    """Base of the arguments of a tool: their JSON schema is what the model is told, and unknown names are refused."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """On whose behalf a tool runs. Everything it reads is limited to this by its own queries.

    ``turn``: the number of the turn that calls; ``question``: what the person asked in it.
    """

    user_id: int
    conversation_id: UUID
    run_id: UUID
    turn: int
    question: str
    role: Role = "user"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """``content``: what the model reads. ``artifact``: the whole result as JSON, for people and storage; ``model_context``:
    a focused form of it that a view may be made of instead. ``ok``: False when the call did not do what was asked; then
    ``content`` says why, so that the model can act on it."""

    content: str
    artifact: Any = None
    model_context: Any = None
    ok: bool = True


class ToolFailure(Exception):
    """Raised by a tool for what the model can do something about; its text becomes the result."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function the model may call.

    ``description``: one line for the model. ``label``: what people read while it runs. ``run`` is called with the context
    and validated ``arguments``; a plain function runs in a database thread, a coroutine function in the event loop.
    ``timeout``: seconds. ``reads_stored``: its results are parts of stored ones and are never stored again. ``needs``: says
    whether the installation has what the tool cannot do without; where it says no, the tool is not registered.
    """

    name: str
    description: str
    label: str
    group: ToolGroup
    arguments: type[ToolArguments]
    run: Callable[[ToolContext, Any], ToolResult | Awaitable[ToolResult]]
    timeout: float = 30.0
    admin_only: bool = False
    reads_stored: bool = False
    needs: Callable[[], bool] | None = None


@dataclass(frozen=True, slots=True)
class Executed:
    """A call that has been carried out, or refused. ``seconds``: how long it took; ``label``: the tool's, for people."""

    call: ToolCall
    result: ToolResult
    seconds: float
    label: str
