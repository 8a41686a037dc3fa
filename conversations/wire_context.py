"""What the model saw, as it crosses the network: of a run that was sent, and of the next turn before it is.

Both show the same ``ViewBody``, so that a page has one way to draw them. All figures of tokens are estimates but for those
that a call reports.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from agentx.wire import StorableText, Wire

BlockAction = Literal["full", "shrunk", "dropped"]
EpochReason = Literal["start", "cut", "forms", "edit", "model", "prompt", "tools"]
Fate = Literal["verbatim", "shortened", "recalled", "in_ledger", "in_segment", "reachable", "left_out"]
Rebuilt = Literal["identical", "differs", "unknown"]

# A longer draft would not fit into an address; it goes into the body of a POST.
DraftInAddress = Annotated[StorableText, Field(max_length=20_000)]
# As long as a message that may be sent.
DraftInBody = Annotated[StorableText, Field(max_length=1_000_000)]


class AllocationRowBody(Wire):
    """One block's tokens: what it would have taken whole, and what it was granted."""

    key: str
    asked: int
    granted: int
    action: BlockAction


class AllocationBody(Wire):
    """``used`` is the sum of the rows' grants and at most ``budget``. ``response``: the limit sent for the answer.

    ``calibration``: reported ÷ estimated tokens, which every figure here was multiplied by. ``predicted_cached``: tokens
    that a provider which caches prefixes should have from the call before; null for the first.
    """

    window: int
    budget: int
    used: int
    response: int
    tokenizer: str
    calibration: float
    predicted_cached: int | None
    dropped_turns: int
    rows: list[AllocationRowBody]


class EpochBody(Wire):
    """Requests of one epoch extend each other. Messages up to ``cut_seq`` have left the view; segments stand for those up
    to ``covered_seq`` without a gap (0 where the digest had no room in the view); those up to ``settled_seq`` are sent in their shortened form.

    ``began_at`` is null for an epoch that would only begin with the turn, and where its row is gone.
    """

    number: int
    reason: EpochReason
    cut_seq: int
    covered_seq: int
    settled_seq: int
    began_at: datetime | None


class FrozenBlockBody(Wire):
    """A block as it was rendered when the epoch began. ``quotes``: seqs of the messages whose words it holds.

    ``text`` is null when it quotes or summarizes a message that was deleted since.
    """

    key: str
    tokens: int
    asked: int
    action: BlockAction
    quotes: list[int]
    text: str | None


class SegmentBody(Wire):
    """A digest segment: what stands for the messages of its range. ``level``: 0 for a leaf, higher for merged ones.

    ``text`` is null when the segment is gone, or stands for a message that was deleted since.
    """

    from_seq: int
    through_seq: int
    kind: Literal["model", "mechanical"]
    level: int
    tokens: int | None
    identifiers: list[str]
    text: str | None


class RecalledBody(Wire):
    """One passage of earlier turns that was quoted because the question seemed to need it."""

    turn: int
    seqs: list[int]
    tokens: int


class FateRangeBody(Wire):
    """What is true of every message from ``from_seq`` to ``through_seq``.

    ``verbatim``, ``shortened``: in the view itself. ``recalled``: quoted by recall. ``in_ledger``: quoted by the evidence
    or the pinned constraints. ``in_segment``: a digest segment stands for it. ``reachable``: none of these, the
    transcript has it. ``left_out``: within the view's range but not sendable, such as an unfinished tool call.
    """

    from_seq: int
    through_seq: int
    fates: list[Fate]


class FatesBody(Wire):
    """The messages from ``from_seq`` to ``through_seq``; none when that is an empty range. ``truncated``: more were asked
    for than one answer has, and these are the newest of them.
    """

    from_seq: int
    through_seq: int
    truncated: bool
    ranges: list[FateRangeBody]


class ViewBody(Wire):
    """Everything that one model call is made of. ``first_seq``, ``through_seq``: of the history in view.

    ``blocks`` stand before the history, ``tail`` (what recall brought back, empty for nothing) directly before the
    question; ``tail`` is null when it quotes a message that was deleted since. ``excerpt``: characters that each tool
    result of the turn was limited to. ``repaired``: why the history had to be cut by rule, null when it did not.
    """

    model: str
    question_seq: int
    first_seq: int
    through_seq: int
    allocation: AllocationBody
    epoch: EpochBody
    blocks: list[FrozenBlockBody]
    segments: list[SegmentBody]
    recalled: list[RecalledBody]
    tail: str | None
    excerpt: int | None
    repaired: str | None
    fates: FatesBody


class CallTokensBody(Wire):
    """One model call: the prompt and its cached share, as estimated before and as the provider reported after it."""

    call_index: int
    estimated_prompt_tokens: int
    prompt_tokens: int | None
    predicted_cached_tokens: int | None
    cached_tokens: int | None


class RebuiltRequestBody(Wire):
    """The request made again from what is stored, with secrets and the data of media left out.

    ``identical``: before that, it was byte for byte the request that was sent. ``reason`` says why it is not.
    """

    rebuilt: Rebuilt
    reason: str | None
    messages: list[dict[str, Any]]


class RunContextBody(Wire):
    """What the model saw in a run. ``request`` is there when it was asked for."""

    run_id: UUID
    conversation_id: UUID
    view: ViewBody
    calls: list[CallTokensBody]
    request: RebuiltRequestBody | None


class ContextPreviewBody(Wire):
    """What the model would see in the next turn. Nothing is stored or sent for it.

    ``fits`` is false when the turn would be refused: then ``needs`` has the tokens of each block, ``budget`` what there is
    for them, and ``view`` is null. ``epoch_change``: why a new epoch would begin, null when none would. ``messages``: the
    request, when it was asked for.
    """

    conversation_id: UUID
    model: str
    fits: bool
    needs: dict[str, int]
    budget: int
    epoch_change: EpochReason | None
    view: ViewBody | None
    messages: list[dict[str, Any]] | None


class ContextDraftIn(Wire):
    """The message that the next turn would send."""

    message: DraftInBody = ""
