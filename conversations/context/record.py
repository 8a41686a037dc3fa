"""What a stored run remembers of its view, so that anyone can later see what the model saw.

The transcript and the epoch's row hold most of it. This keeps the rest: which messages were in view and in which form, the
volatile tail word for word, and a hash by which a rebuilt request proves to be the one that was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from conversations.context.assemble import View
from conversations.context.render import hash_tools
from conversations.context.types import PreviousCall, Snapshot, TranscriptMessage

Fate = Literal["verbatim", "shortened", "recalled", "in_ledger", "in_segment", "reachable", "left_out"]

# What :func:`previous_call` reads of a record, so that no more has to be fetched.
PREVIOUS_FIELDS = ("epoch", "through_seq", "question_seq", "tail", "model")


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of the messages from ``from_seq`` to ``through_seq``: everything that is true of all of them.

    ``verbatim``, ``shortened``: in the view itself. ``recalled``: quoted by automatic recall. ``in_ledger``: quoted by the
    evidence or the pinned constraints. ``in_segment``: a digest segment stands for them. ``reachable``: nothing of the
    above, the transcript has them. ``left_out``: inside the view's range, but not sendable (an unfinished tool call).
    """

    from_seq: int
    through_seq: int
    fates: tuple[Fate, ...]


def record_view(*, view: View, snapshot: Snapshot) -> dict[str, Any]:
    """The JSON kept on the run. ``covered_seq``: 0 where the digest had no room in this view."""
    digested = any(block.key == "digest" and block.content for block in snapshot.epoch.blocks)
    return {
        "epoch": snapshot.epoch.number,
        "epoch_reason": snapshot.epoch.reason,
        "model": snapshot.model.name,
        "strict_roles": snapshot.model.strict_roles,
        "cut_seq": snapshot.epoch.cut_seq,
        "covered_seq": snapshot.epoch.covered_seq if digested else 0,
        "settled_seq": snapshot.epoch.settled_seq,
        "first_seq": view.allocation.first_seq,
        "through_seq": view.history[-1].message.seq if view.history else snapshot.epoch.cut_seq,
        "question_seq": snapshot.question.seq,
        "current": [_followed(message) for message in snapshot.current[1:]],
        "tools": hash_tools(view.tools) if view.tools else None,
        "sent": to_ranges(item.message.seq for item in view.history),
        "shortened": to_ranges(item.message.seq for item in view.history if item.form == "shortened"),
        "quoted": sorted({seq for block in snapshot.epoch.blocks for seq in block.seqs}),
        "recalled": [
            {"turn": passage.turn, "seqs": list(passage.seqs), "tokens": passage.tokens}
            for passage in view.recalled
        ],
        "tail": view.tail,
        "excerpt": view.excerpt,
        "hash": view.request_hash,
        "repaired": view.repaired,
        "calibration": snapshot.model.calibration,
    }


def _followed(message: TranscriptMessage) -> int | dict[str, str]:
    """What followed the question: the seq of a stored message, or what was said in this request alone."""
    return message.seq or {"role": message.role, "content": message.content}


def previous_call(record: Mapping[str, Any], *, model: str) -> PreviousCall | None:
    """What the cached share of the next request to ``model`` depends on.

    None for a record of an older shape and for a call of another model: neither predicts anything.
    """
    if any(record.get(name) is None for name in PREVIOUS_FIELDS) or record["model"] != model:
        return None
    return PreviousCall(
        epoch=record["epoch"],
        through_seq=record["through_seq"],
        question_seq=record["question_seq"],
        tail=bool(record["tail"]),
    )


def trace_fates(*, record: Mapping[str, Any], live_seqs: Iterable[int] | None = None) -> tuple[Fates, ...]:
    """What became of every message before the question, as ranges in order.

    ``live_seqs``: limits the answer to these seqs, for a page of messages; None gives all of them from 1 on.
    """
    question: int = record["question_seq"]
    seqs = range(1, question) if live_seqs is None else sorted(seq for seq in live_seqs if seq < question)
    sent = from_ranges(record["sent"])
    shortened = from_ranges(record["shortened"])
    recalled = {seq for passage in record["recalled"] for seq in passage["seqs"]}
    quoted = set(record["quoted"])
    found: list[Fates] = []
    for seq in seqs:
        fates = _fates_of(seq, record, sent, shortened, recalled, quoted)
        last = found[-1] if found else None
        if last is not None and last.fates == fates and last.through_seq == seq - 1:
            found[-1] = Fates(last.from_seq, seq, fates)
        else:
            found.append(Fates(seq, seq, fates))
    return tuple(found)


def _fates_of(
    seq: int,
    record: Mapping[str, Any],
    sent: set[int],
    shortened: set[int],
    recalled: set[int],
    quoted: set[int],
) -> tuple[Fate, ...]:
    fates: list[Fate] = []
    if seq in sent:
        fates.append("shortened" if seq in shortened else "verbatim")
    elif seq > record["cut_seq"]:
        fates.append("left_out")
    if seq in recalled:
        fates.append("recalled")
    if seq in quoted:
        fates.append("in_ledger")
    if seq <= record["covered_seq"] and seq <= record["cut_seq"]:
        fates.append("in_segment")
    return tuple(fates) or ("reachable",)


def to_ranges(seqs: Iterable[int]) -> list[list[int]]:
    """Ascending integers as ``[first, last]`` pairs of consecutive ones."""
    ranges: list[list[int]] = []
    for seq in seqs:
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1][1] = seq
        else:
            ranges.append([seq, seq])
    return ranges


def from_ranges(ranges: Sequence[Sequence[int]]) -> set[int]:
    """The integers of :func:`to_ranges`."""
    return {seq for first, last in ranges for seq in range(first, last + 1)}
