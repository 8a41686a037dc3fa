"""Whole exchanges: an assistant message with tool calls and every result that answers it, or neither.

A provider refuses a request in which a call lacks its result, a result lacks its call, or an id is used twice; and one
such request in the history would make every later turn fail. Nothing here looks at sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from conversations.context.types import TranscriptMessage


def keep_whole_exchanges(
    messages: Sequence[TranscriptMessage], *, used_ids: Collection[str] = ()
) -> tuple[TranscriptMessage, ...]:
    """The messages that may be sent, in an order that every provider accepts.

    ``used_ids``: of calls that stand before them in the same request.

    Left out: calls that were not all answered, results without their call, second results of a call, and messages
    without any content. Results stand directly behind their call, in the order of the calls; ids are unique.
    """
    kept: list[TranscriptMessage] = []
    used = set(used_ids)
    for turn in split_turns(messages):
        answers = _answers(turn)
        for message in turn:
            if message.role == "tool":
                continue
            if not message.tool_calls:
                if message.content.strip() or message.parts:
                    kept.append(message)
                continue
            results = answers.get(message.id, ())
            if len(results) == len(message.tool_calls):
                kept.extend(_with_unique_ids(message, results, used))
    return tuple(kept)


def split_turns(messages: Sequence[TranscriptMessage]) -> list[list[TranscriptMessage]]:
    """Messages of the same turn number together, in order."""
    turns: list[list[TranscriptMessage]] = []
    for message in messages:
        if not turns or turns[-1][0].turn != message.turn:
            turns.append([])
        turns[-1].append(message)
    return turns


def find_broken_pair(messages: Sequence[TranscriptMessage]) -> str | None:
    """What is wrong with the exchanges of ``messages``, as one sentence; None when every one is whole."""
    open_ids: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if not open_ids or message.tool_call_id != open_ids[0]:
                return f"message {message.seq} answers {message.tool_call_id!r}, which is not the call it follows"
            open_ids.pop(0)
            continue
        if open_ids:
            return f"message {message.seq} comes before the result of call {open_ids[0]!r}"
        for call in message.tool_calls:
            if call.id in seen:
                return f"call id {call.id!r} is used twice"
            seen.add(call.id)
            open_ids.append(call.id)
    return f"call {open_ids[0]!r} has no result" if open_ids else None


def _answers(turn: Sequence[TranscriptMessage]) -> dict[int, tuple[TranscriptMessage, ...]]:
    """By id of the calling message: its results in the order of its calls, as many as there are.

    A result belongs to the newest call before it with its id that still waits, since some providers use ids again.
    """
    waiting: list[tuple[TranscriptMessage, dict[int, TranscriptMessage]]] = []
    for message in turn:
        if message.tool_calls:
            waiting.append((message, {}))
        elif message.role == "tool":
            for caller, got in reversed(waiting):
                place = next(
                    (
                        index
                        for index, call in enumerate(caller.tool_calls)
                        if call.id == message.tool_call_id and index not in got
                    ),
                    None,
                )
                if place is not None:
                    got[place] = message
                    break
    return {caller.id: tuple(got[index] for index in sorted(got)) for caller, got in waiting}


def _with_unique_ids(
    caller: TranscriptMessage, results: Sequence[TranscriptMessage], used: set[str]
) -> list[TranscriptMessage]:
    """The exchange, with ids that were used before made unique by the seq of the call: the same in every view."""
    ids: list[str] = []
    for index, call in enumerate(caller.tool_calls):
        unique = call.id
        if not unique or unique in used:
            unique = f"{call.id}-{caller.seq}-{index}"
        while unique in used:
            unique += "-"
        used.add(unique)
        ids.append(unique)
    if all(unique == call.id for unique, call in zip(ids, caller.tool_calls, strict=True)):
        return [caller, *results]
    calls = tuple(replace(call, id=unique) for unique, call in zip(ids, caller.tool_calls, strict=True))
    return [
        replace(caller, tool_calls=calls),
        *(replace(result, tool_call_id=unique) for unique, result in zip(ids, results, strict=True)),
    ]
