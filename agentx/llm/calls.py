"""Tool calls put together from the pieces of a streamed answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from agentx.llm.messages import ToolCall

# As long as names and ids may be: they are words and random strings, and both go into the next request.
_MOST_NAME = 200


@dataclass(slots=True)
class _Partial:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


class CallAssembler:
    """Takes the ``tool_calls`` of every chunk in order.

    Servers differ: some send each call whole in one chunk, most in pieces that share an ``index``, some leave the index
    out, repeat the name in every piece, or give the arguments as an object.
    """

    def __init__(self) -> None:
        self._partials: dict[int, _Partial] = {}
        self.characters = 0

    def take(self, pieces: Sequence[object]) -> None:
        """The pieces of one chunk. What is no object is ignored."""
        for piece in pieces:
            if isinstance(piece, Mapping):
                self._take(cast("Mapping[str, Any]", piece))

    def _take(self, piece: Mapping[str, Any]) -> None:
        function: object = piece.get("function")
        empty: Mapping[str, Any] = {}
        fields = cast("Mapping[str, Any]", function) if isinstance(function, Mapping) else empty
        partial = self._find(piece)
        if isinstance(piece.get("id"), str) and not partial.id:
            partial.id = piece["id"]
        name: object = fields.get("name")
        if isinstance(name, str) and name != partial.name:
            partial.name += name
        arguments: object = fields.get("arguments")
        if isinstance(arguments, Mapping | list):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if isinstance(arguments, str) and arguments:
            partial.arguments.append(arguments)
            self.characters += len(arguments)

    def _find(self, piece: Mapping[str, Any]) -> _Partial:
        """The call a piece belongs to: by its index; without one, a new id begins a new call."""
        index: object = piece.get("index")
        if not isinstance(index, int) or isinstance(index, bool):
            newest = max(self._partials, default=-1)
            given: object = piece.get("id")
            begins = newest < 0 or (isinstance(given, str) and given and given != self._partials[newest].id)
            index = newest + 1 if begins else newest
        return self._partials.setdefault(index, _Partial())

    def end(self) -> tuple[ToolCall, ...]:
        """The calls in order, with ids that are there and differ. A call without a name is none."""
        calls: list[ToolCall] = []
        used: set[str] = set()
        for index, partial in sorted(self._partials.items()):
            if not partial.name:
                continue
            call_id = partial.id[:_MOST_NAME]
            if not call_id or call_id in used:
                call_id = f"call_{index}"
            while call_id in used:
                call_id += "_"
            used.add(call_id)
            calls.append(ToolCall(call_id, partial.name[:_MOST_NAME], "".join(partial.arguments)))
        return tuple(calls)
