"""The values the engine works on: what it is given and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agentx.llm.messages import ChatMessage, Part, ToolCall, ToolSchema
from conversations.context.budget import BudgetRules

if TYPE_CHECKING:
    from conversations.context.evidence import Evidence

Action = Literal["full", "shrunk", "dropped"]
Stability = Literal["stable", "slow", "digest", "history", "volatile", "question"]
EpochReason = Literal["start", "cut", "forms", "edit", "model", "prompt", "tools"]


class TokenCounter(Protocol):
    """Estimates tokens. ``name`` is stored beside every count, since counts of different tokenizers do not compare."""

    @property
    def name(self) -> str: ...

    def count_text(self, text: str) -> int: ...

    def count_message(self, message: ChatMessage) -> int: ...

    def count_tools(self, tools: Sequence[ToolSchema]) -> int: ...


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """One stored message. ``tokens``: the estimate stored on its row, message overhead included.

    ``artifact``: a tool's whole result; ``model_context``: a tool's own focused form of it. Neither is ever changed.
    ``excerpt``: characters each tool result of its turn was limited to when it was first sent; None for whole. ``ok``: False
    for the result of a call that was refused or failed.
    """

    id: int
    seq: int
    turn: int
    role: Literal["user", "assistant", "tool"]
    content: str
    tokens: int
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    artifact: Any = None
    model_context: Any = None
    excerpt: int | None = None
    chain_hash: str = ""
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Passage:
    """Words brought back by recall: one excerpt of consecutive messages. ``seqs``: the messages it shows words of."""

    turn: int
    seqs: tuple[int, ...]
    text: str
    score: float
    tokens: int


@dataclass(frozen=True, slots=True)
class FrozenBlock:
    """A slow block as it was rendered when its epoch began. ``seqs``: the messages whose words it holds, if it says."""

    key: str
    content: str
    tokens: int
    asked: int
    action: Action
    seqs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EpochState:
    """What stays the same from one epoch change to the next. Number 0: no turn has been sent yet.

    ``cut_seq``: messages up to it have left the view. ``covered_seq``: digest segments are gapless from the first
    message to here. ``settled_seq``: messages up to it are sent in their shortened form. ``revision``: of the live
    transcript. ``fingerprint``: of model, system text and tools. ``evidence``: the ledger as it stood at the cut; None where that is not known.
    """

    number: int = 0
    reason: EpochReason = "start"
    cut_seq: int = 0
    cut_message_id: int | None = None
    covered_seq: int = 0
    settled_seq: int = 0
    revision: int = 0
    model: str = ""
    fingerprint: str = ""
    blocks: tuple[FrozenBlock, ...] = ()
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the engine needs to know of the model. ``window``: prompt and answer together, in tokens.
    ``image_tokens``: what one image costs.

    ``calibration``: reported ÷ estimated prompt tokens, by which every estimate is multiplied. ``stands_in``: it answers for
    a model that cannot be reached, in whose epoch the view stays.
    """

    name: str
    window: int
    strict_roles: bool = False
    explicit_cache: bool = False
    image_tokens: int = 1_100
    calibration: float = 1.0
    stands_in: bool = False


@dataclass(frozen=True, slots=True)
class PreviousCall:
    """The last request of the conversation, as far as the next one's cached share depends on it.

    ``through_seq``: its last history message; ``question_seq``: its question; ``tail``: it had volatile blocks.
    """

    epoch: int
    through_seq: int
    question_seq: int
    tail: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one view is made of, read at one moment.

    ``history``: live messages after the cut and before the question, oldest first. ``unloaded``: there are live messages
    between the cut and ``history`` that were too many to be loaded. ``current``: the question and what followed it in its turn.
    """

    system_prompt: str
    history: tuple[TranscriptMessage, ...]
    current: tuple[TranscriptMessage, ...]
    model: ModelFacts
    rules: BudgetRules
    unloaded: bool = False
    revision: int = 0
    tools: tuple[ToolSchema, ...] = ()
    epoch: EpochState = field(default_factory=EpochState)
    passages: tuple[Passage, ...] = ()
    previous: PreviousCall | None = None

    @property
    def question(self) -> TranscriptMessage:
        return self.current[0]


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
    epoch: int = 0
    calibration: float = 1.0
    predicted_cached: int | None = None


class DoesNotFitError(ValueError):
    """What may not be cut exceeds the budget, so nothing may be sent.

    ``needs``: tokens by block key; ``budget``: tokens there are for all of them.
    """

    def __init__(self, *, needs: Mapping[str, int], budget: int) -> None:
        self.needs, self.budget = dict(needs), budget
        named = ", ".join(f"{key} {tokens:,}" for key, tokens in needs.items())
        super().__init__(
            f"the request needs {sum(needs.values()):,} tokens ({named}), but the model's window leaves {budget:,}"
        )
