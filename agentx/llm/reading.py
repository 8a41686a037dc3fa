"""Turning the chunks of an answer into stream items, and judging its end. The one place for it, whatever reads the bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentx.errors import ProviderFailed, StreamBroken
from agentx.llm.calls import CallAssembler
from agentx.llm.messages import (
    ContentDelta,
    Finish,
    Heartbeat,
    ReasoningDelta,
    StreamItem,
    ToolCall,
    ToolCalls,
    UsageReport,
)
from agentx.llm.thinking import ThinkSplitter
from agentx.llm.usage import read_usage

_UNSTORABLE = {0: "\ufffd"} | dict.fromkeys(range(55296, 57344), "�")


# As long as a finish reason may be; the longest known one has 23 characters.
_FINISH_CHARACTERS = 40


class AnswerReader:
    """Takes the chunks of one answer in order. ``most_characters``: where an answer that never ends is cut off."""

    def __init__(self, *, most_characters: int) -> None:
        self.output_started = False
        self._splitter = ThinkSplitter()
        self._calls = CallAssembler()
        self._most_characters = most_characters
        self._characters = 0
        self._finish: str | None = None
        self._usage: UsageReport | None = None

    def take(
        self,
        *,
        content: str,
        reasoning: str,
        finish: object,
        usage: Mapping[str, Any] | None,
        calls: Sequence[object] = (),
    ) -> list[StreamItem]:
        """The items of one chunk, at least one. ``finish``, ``calls``: whatever the provider wrote there.

        Raises ``StreamBroken`` when the answer is beyond every limit.
        """
        items: list[StreamItem] = []
        if reasoning:
            items.append(ReasoningDelta(clean_text(reasoning)))
        if content:
            items.extend(self._splitter.feed(clean_text(content)))
        self._finish = clean_text(str(finish))[:_FINISH_CHARACTERS] if finish else self._finish
        if usage:
            self._usage = read_usage(
                usage
            )  # some servers send a running total in every chunk: the last one counts
        if calls:
            self._calls.take(calls)
            self.output_started = True
        self._note_output(items)
        return items or [Heartbeat()]

    def end(self) -> list[StreamItem]:
        """What was held back, then the calls, usage and finish. P21: without a finish reason the answer was cut off, however
        politely the stream ended: ``StreamBroken``, or ``ProviderFailed`` when nothing had come at all.
        """
        items: list[StreamItem] = list(self._splitter.finish())
        self._note_output(items)
        if self._finish is None:
            if self.output_started:
                raise StreamBroken(
                    "The model server ended its answer in the middle; what came is kept", output_started=True
                )
            raise ProviderFailed("The model server ended its answer before it had said anything")
        calls = tuple(
            ToolCall(clean_text(call.id), clean_text(call.name), clean_text(call.arguments))
            for call in self._calls.end()
        )
        if calls:
            items.append(ToolCalls(calls))
        if self._usage is not None:
            items.append(self._usage)
        return [*items, Finish(self._finish)]

    def _note_output(self, items: Sequence[StreamItem]) -> None:
        for item in items:
            if isinstance(item, ContentDelta | ReasoningDelta):
                self.output_started = True
                self._characters += len(item.text)
        if self._characters + self._calls.characters > self._most_characters:
            raise StreamBroken(
                "The model wrote more than any answer may have and was cut off", output_started=True
            )


def clean_text(text: str) -> str:
    """``text`` with NUL and lone surrogates, which cannot be stored, replaced by U+FFFD."""
    return text.translate(_UNSTORABLE) if not text.isascii() or "\x00" in text else text
