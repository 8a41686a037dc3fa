"""The slow blocks of an epoch, rendered once and frozen: constraints, evidence, the overflow notice and the digest.

Each has a reserve of its own, so that none of them can push another out. What does not fit is shortened before it is left
out, and the allocation says what it would have needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from agentx.llm.messages import ToolSchema
from conversations.context.blocks import Block, Shrink, allocate_blocks, keep_newest_lines, make_block
from conversations.context.evidence import (
    BUCKETS,
    Bucket,
    Evidence,
    EvidenceEntry,
    render_constraints,
    render_ledger,
)
from conversations.context.layout import FRAME_TOKENS, Layout
from conversations.context.render import render_digest, render_overflow
from conversations.context.segments import Segment, shorten_line, shorten_segment, write_leaves
from conversations.context.types import FrozenBlock, Snapshot, TokenCounter, TranscriptMessage

# How far the excerpts of a bucket are shortened, in characters, before the first of them is left out.
_WIDTHS = (600, 400, 260, 170, 110)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A block with the seqs it quotes and what it would have needed whole."""

    block: Block
    seqs: tuple[int, ...] = ()
    asked: int = 0


def freeze_blocks(
    *,
    snapshot: Snapshot,
    cut_seq: int,
    evicted: Sequence[TranscriptMessage],
    active: Sequence[Segment],
    covered: int,
    evidence: Evidence | None,
    layout: Layout,
    room: int,
    counter: TokenCounter,
) -> tuple[FrozenBlock, ...]:
    """The blocks of an epoch whose cut is at ``cut_seq``, in the order in which they stand, in ``room`` tokens.

    Where no digest fits at all, nothing is summarized, and the notice says so for every message before the cut.
    """
    make = partial(
        _candidates,
        snapshot=snapshot,
        cut_seq=cut_seq,
        evicted=evicted,
        evidence=evidence,
        layout=layout,
        counter=counter,
    )
    blocks = _freeze(make(active=active, covered=covered), room, counter)
    if covered and not any(block.key == "digest" and block.content for block in blocks):
        return _freeze(make(active=(), covered=0), room, counter)
    return blocks


def _freeze(candidates: Sequence[_Candidate], room: int, counter: TokenCounter) -> tuple[FrozenBlock, ...]:
    granted = allocate_blocks(
        blocks=[candidate.block for candidate in candidates], budget=room, counter=counter
    )
    return tuple(
        FrozenBlock(
            key=item.block.key,
            content=item.content,
            tokens=item.tokens,
            asked=max(candidate.asked, item.block.tokens),
            action="shrunk" if item.action == "full" and candidate.asked > item.tokens else item.action,
            seqs=candidate.seqs if item.content else (),
        )
        for item, candidate in zip(granted, candidates, strict=True)
        if item.block.content or candidate.asked
    )


def _candidates(
    *,
    snapshot: Snapshot,
    cut_seq: int,
    evicted: Sequence[TranscriptMessage],
    active: Sequence[Segment],
    covered: int,
    evidence: Evidence | None,
    layout: Layout,
    counter: TokenCounter,
) -> tuple[_Candidate, ...]:
    reserves = layout.reserves
    fit = partial(_fit_entries, evidence=evidence, cut_seq=cut_seq, counter=counter)
    notice = stand_in = digest = ""
    if covered < cut_seq:
        notice = render_overflow(from_seq=covered + 1, through_seq=cut_seq, tools=snapshot.tools)
        fresh = [message for message in evicted if message.seq > covered]
        stand_in = _stand_in(fresh, cut_seq, reserves.digest // 2 - FRAME_TOKENS, counter)
    if active:
        digest = _fit_digest(active, snapshot.tools, reserves.digest, counter)

    def shrink_digest(_text: str, most: int, counter: TokenCounter) -> str:
        return _fit_digest(active, snapshot.tools, most, counter)

    return (
        fit(
            key="pinned_constraints",
            render=render_constraints,
            buckets=("constraints",),
            most=reserves.pinned,
        ),
        fit(
            key="evidence_ledger",
            render=render_ledger,
            buckets=("decisions", "open_work", "recent"),
            most=reserves.ledger,
        ),
        _Candidate(_slow("overflow_notice", notice, None, counter)),
        _Candidate(
            _slow("history_digest", stand_in, max(0, reserves.digest // 2), counter, keep_newest_lines)
        ),
        _Candidate(_slow("digest", digest, reserves.digest, counter, shrink_digest)),
    )


def _slow(
    key: str, content: str, max_tokens: int | None, counter: TokenCounter, shrink: Shrink | None = None
) -> Block:
    return make_block(
        key=key,
        content=content,
        counter=counter,
        stability="digest" if key == "digest" else "slow",
        min_tokens=24,
        max_tokens=max_tokens,
        shrink=shrink,
    )


def _fit_digest(
    active: Sequence[Segment], tools: Sequence[ToolSchema], most: int, counter: TokenCounter
) -> str:
    """The digest with every segment shortened to the same number of tokens, the largest with which it fits; empty when
    not even the headings do."""
    text = render_digest(segments=active, tools=tools)
    if counter.count_text(text) <= most:
        return text
    text = ""
    low, high = 4, max(segment.tokens for segment in active)
    while low <= high:
        middle = (low + high) // 2
        short = [shorten_segment(segment, most=middle, counter=counter) for segment in active]
        tried = render_digest(segments=short, tools=tools)
        if counter.count_text(tried) <= most:
            text, low = tried, middle + 1
        else:
            high = middle - 1
    return text


def _fit_entries(
    *,
    key: str,
    render: Callable[..., str],
    evidence: Evidence | None,
    buckets: Sequence[Bucket],
    cut_seq: int,
    most: int,
    counter: TokenCounter,
) -> _Candidate:
    """Some buckets' evidence of what has left the view: its excerpts shortened alike until they fit, and only then the
    oldest of the fullest bucket left out."""
    kept: dict[Bucket, tuple[EvidenceEntry, ...]] = {}
    if evidence is not None:
        kept = {
            name: tuple(entry for entry in evidence.buckets[name] if entry.seq <= cut_seq)
            if name in buckets
            else ()
            for name in BUCKETS
        }
    if evidence is None or not any(kept.values()):
        return _Candidate(_slow(key, "", most, counter))

    def written(entries: Mapping[Bucket, tuple[EvidenceEntry, ...]]) -> str:
        return render(evidence=replace(evidence, buckets=entries), through_seq=cut_seq)

    text = written(kept)
    asked = counter.count_text(text)
    for width in _WIDTHS:
        if counter.count_text(text) <= most:
            break
        kept = {name: tuple(_shorten_entry(entry, width) for entry in held) for name, held in kept.items()}
        text = written(kept)
    while counter.count_text(text) > most:
        fullest = max(kept, key=lambda name: sum(len(entry.text) for entry in kept[name]))
        kept[fullest] = kept[fullest][1:]
        if not any(kept.values()):
            return _Candidate(_slow(key, "", most, counter), asked=asked)
        text = written(kept)
    seqs = tuple(sorted({entry.seq for held in kept.values() for entry in held}))
    return _Candidate(_slow(key, text, most, counter), seqs, asked)


def _shorten_entry(entry: EvidenceEntry, width: int) -> EvidenceEntry:
    if len(entry.text) <= width:
        return entry
    return replace(entry, text=shorten_line(entry.text, width), cut=True)


def _stand_in(
    fresh: Sequence[TranscriptMessage], cut_seq: int, text_tokens: int, counter: TokenCounter
) -> str:
    """By rule, in this epoch only: what leaves the view now although no segment can stand for it yet."""
    if not fresh:
        return ""
    (leaf,) = write_leaves(
        messages=fresh,
        after_seq=fresh[0].seq - 1,
        through_seq=cut_seq,
        leaf_tokens=sum(message.tokens for message in fresh) + 1,
        text_tokens=text_tokens,
        counter=counter,
    )
    return f"Messages {leaf.from_seq} to {leaf.through_seq}, by rule:\n{leaf.text}"
