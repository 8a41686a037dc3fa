"""A conversation as the engine sees it, turn after turn, without a database: what the services store is kept in values.

Each turn does what a runner does: plan an epoch, begin it where one is due, assemble. What was sent is remembered, so
that tests can hold one request against the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agentx.llm.messages import ToolSchema
from agentx.llm.tokens import TokenCounter
from conversations.context.assemble import View, assemble_view
from conversations.context.budget import BudgetRules
from conversations.context.chain import hash_message
from conversations.context.epoch import EpochDraft, begin_epoch, plan_epoch
from conversations.context.evidence import Evidence, empty_evidence, fold_messages
from conversations.context.record import previous_call, record_view
from conversations.context.segments import Segment
from conversations.context.stored import as_chat_message
from conversations.context.types import (
    EpochState,
    ModelFacts,
    Passage,
    PreviousCall,
    Snapshot,
    TranscriptMessage,
)


class BytesTokenizer:
    """A token for every three bytes: fast, and never less for two texts apart than for both together."""

    name = "bytes"

    def count(self, text: str) -> int:
        return (len(text.encode("utf-8", "surrogatepass")) + 2) // 3


COUNTER = TokenCounter(BytesTokenizer())
RULES = BudgetRules(response_reserve=4_096, safety_reserve=2_048, verbatim_ratio=0.85)
MAX_ROWS = 400


@dataclass(frozen=True)
class Sent:
    """One request that was sent, and the epoch it was sent in."""

    view: View
    snapshot: Snapshot
    record: dict[str, Any]
    begun: EpochDraft | None
    segments: tuple[Segment, ...]


@dataclass
class Simulation:
    """``window``, ``rules``, ``model``, ``system`` and ``tools`` may be changed between turns.

    ``twice``: begin every epoch a second time, as another worker would, and insist that it is the same.
    """

    window: int = 8_192
    rules: BudgetRules = RULES
    model: str = "scripted"
    system: str = "Be brief."
    tools: tuple[ToolSchema, ...] = ()
    strict_roles: bool = False
    calibration: float = 1.0
    twice: bool = False
    rows: list[TranscriptMessage] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    epoch: EpochState = field(default_factory=EpochState)
    evidence: Evidence = field(default_factory=empty_evidence)
    revision: int = 0
    previous: PreviousCall | None = None
    sent: list[Sent] = field(default_factory=list)
    passages: tuple[Passage, ...] = ()
    next_seq: int = 1
    next_turn: int = 1
    chain: str = ""

    def add(self, role: str, content: str, *, turn: int | None = None, **fields: Any) -> TranscriptMessage:
        """Store one message, counted as the services count it."""
        turn = self.next_turn if turn is None else turn
        message = TranscriptMessage(
            id=self.next_seq + 1_000,
            seq=self.next_seq,
            turn=turn,
            role=role,
            content=content,
            tokens=0,
            **fields,
        )
        self.chain = hash_message(
            previous=self.chain,
            seq=message.seq,
            role=role,
            content=content,
            parts=[repr(part) for part in message.parts],
            tool_calls=[{"id": call.id} for call in message.tool_calls],
            tool_call_id=message.tool_call_id,
        )
        tokens = COUNTER.count_message(as_chat_message(message))
        message = replace(message, tokens=tokens, chain_hash=self.chain)
        self.rows.append(message)
        self.next_seq += 1
        return message

    def ask(self, question: str, *, parts: tuple[Any, ...] = ()) -> Sent:
        """Store a question, bring the view into an epoch that has room for it, assemble. Raises what the engine raises."""
        self.add("user", question, parts=parts)
        self.next_turn += 1
        return self.send()

    def send(self) -> Sent:
        """Assemble for the newest question."""
        snapshot = self.snapshot()
        begun = None
        plan = plan_epoch(snapshot=snapshot, counter=COUNTER)
        if plan is not None:
            begin = partial(
                begin_epoch,
                snapshot=snapshot,
                plan=plan,
                segments=tuple(self.segments),
                evidence=self.evidence,
                counter=COUNTER,
            )
            begun = begin()
            assert not self.twice or begin() == begun
            self.epoch = begun.state
            merged = {segment.anchor for segment in begun.merged}
            known = {segment.anchor: segment for segment in (*self.segments, *begun.leaves, *begun.parents)}
            self.segments = sorted(
                (segment for anchor, segment in known.items() if anchor not in merged),
                key=lambda segment: segment.from_seq,
            )
            snapshot = self.snapshot()
            assert plan_epoch(snapshot=snapshot, counter=COUNTER) is None, "a new epoch must have room"
        view = assemble_view(snapshot=snapshot, counter=COUNTER)
        record = record_view(view=view, snapshot=snapshot)
        sent = Sent(view=view, snapshot=snapshot, record=record, begun=begun, segments=tuple(self.segments))
        self.sent.append(sent)
        self.previous = previous_call(record, model=record["model"])
        return sent

    def reply(self, *messages: tuple[str, str, dict[str, Any]]) -> None:
        """Store what the turn gave: messages as (role, content, fields). The finished turn enters the evidence."""
        for role, content, fields in messages:
            self.add(role, content, turn=self.next_turn - 1, **fields)
        fresh = [row for row in self.rows if row.seq > self.evidence.cursor]
        if fresh:
            self.evidence = fold_messages(evidence=self.evidence, messages=fresh, counter=COUNTER)

    def turn(self, question: str, answer: str = "ok") -> Sent:
        """One plain turn."""
        sent = self.ask(question)
        self.reply(("assistant", answer, {}))
        return sent

    def edit(self, from_seq: int) -> None:
        """Take the messages from ``from_seq`` on out of the live transcript, and the segments that stood for them."""
        self.rows = [row for row in self.rows if row.seq < from_seq]
        self.segments = [segment for segment in self.segments if segment.through_seq < from_seq]
        self.revision += 1
        self.evidence = fold_messages(evidence=empty_evidence(), messages=self.rows, counter=COUNTER)

    def snapshot(self) -> Snapshot:
        """As ``selectors.snapshot`` reads it."""
        question = self.rows[-1]
        epoch = self.epoch
        if epoch.revision != self.revision:
            covered = 0
            for segment in self.segments:
                covered = segment.through_seq if segment.from_seq == covered + 1 else covered
            if covered < epoch.cut_seq:
                epoch = replace(
                    epoch,
                    cut_seq=covered,
                    covered_seq=covered,
                    cut_message_id=None,
                    blocks=(),
                    evidence=None,
                )
        after = [row for row in self.rows[:-1] if row.seq > epoch.cut_seq]
        loaded = after[-MAX_ROWS:]
        unloaded = len(loaded) < len(after)
        if unloaded:
            loaded = loaded[next((i for i, row in enumerate(loaded) if row.role == "user"), 0) :]
        return Snapshot(
            system_prompt=self.system,
            tools=self.tools,
            history=tuple(loaded),
            current=(question,),
            model=ModelFacts(
                name=self.model,
                window=self.window,
                strict_roles=self.strict_roles,
                calibration=self.calibration,
            ),
            rules=self.rules,
            unloaded=unloaded,
            revision=self.revision,
            epoch=epoch,
            passages=self.passages if epoch.cut_seq else (),
            previous=self.previous,
        )


def flat(view: View) -> str:
    """A request as one text, to compare beginnings."""
    return "\x00".join(flat_messages(view.messages))


def flat_messages(messages: Sequence[Any]) -> list[str]:
    """Each message as one text, everything that is sent included."""
    return [repr(message) for message in messages]
