"""The values the engine works on: what it is given and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from agentx.llm.messages import ChatMessage
from conversations.context.budget import BudgetRules

Action = Literal["full", "shrunk", "dropped"]


class TokenCounter(Protocol):
    """Estimates tokens. ``name`` is stored beside every count, since counts of different tokenizers do not compare."""

    @property
    def name(self) -> str: ...

    def count_text(self, text: str) -> int: ...

    def count_message(self, message: ChatMessage) -> int: ...


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """One stored message. ``tokens`` is the estimate stored on its row, message overhead included."""

    id: int
    seq: int
    turn: int
    role: Literal["user", "assistant", "tool"]
    content: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one view is made of, read at one moment.

    ``history``: messages before the question, oldest first, only the newest that could fit. ``turns_before``: how many
    turns the conversation had before the question, loaded or not.
    """

    system_prompt: str
    history: tuple[TranscriptMessage, ...]
    question: TranscriptMessage
    turns_before: int
    window: int
    rules: BudgetRules


@dataclass(frozen=True, slots=True)
class Grant:
    """One row of the allocation, in tokens."""

    key: str
    asked: int
    granted: int
    action: Action


@dataclass(frozen=True, slots=True)
class Allocation:
    """What each block asked for and was granted. ``used`` is the estimate of the whole request, at most ``budget``."""

    window: int
    budget: int
    used: int
    response: int
    tokenizer: str
    grants: tuple[Grant, ...]
    dropped_turns: int
    first_seq: int


@dataclass(frozen=True, slots=True)
class View:
    """The exact messages of one model call and how they came to be chosen."""

    messages: tuple[ChatMessage, ...]
    allocation: Allocation


class QuestionDoesNotFit(ValueError):
    """The question and the fixed blocks together exceed the budget. Nothing may be sent. All figures in tokens."""

    def __init__(self, *, question: int, system: int, budget: int) -> None:
        self.question, self.system, self.budget = question, system, budget
        super().__init__(
            f"the message needs {question} tokens and the system prompt {system}, "
            f"but the model's window leaves {budget} for both"
        )
