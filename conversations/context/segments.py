"""Digest segments: what stands in for turns that left the view, as a list that is gapless from the first message on.

A leaf stands for some thousand tokens of transcript. When the list grows too long, the four oldest segments of one level
merge into a parent, so that each message is summarized a logarithmic number of times. Here a segment's text is made by
rule: the first and last sentence of what people and the model said, and the identifiers of every message. Ranges tile the seqs: the next segment begins
where the one before it ends, also across seqs that were edited away.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from conversations.context.blocks import keep_head
from conversations.context.exchanges import split_turns
from conversations.context.identifiers import find_identifiers
from conversations.context.types import TokenCounter, TranscriptMessage

MECHANICAL_VERSION = "mechanical-2"
LEAF_TOKENS = 5_000
MERGED_AT_ONCE = 4
# The most of its source that a segment's text may have, and the most tokens of a leaf's text.
_LARGEST_SHARE = 0.5
LEAF_TEXT_TOKENS = 300
# What the line above a segment in the digest costs, and the least that is worth a line of its own.
LINE_TOKENS = 20
_LEAST_TEXT = 24
_SENTENCE = re.compile(r"(?<=[.!?。！？…])\s+|(?<=[。！？])|\n+")
_SENTENCE_CHARACTERS = 240
_CUT_WORD = re.compile(r"\S*…\S*")
# What of a link may be any text at all; of a tool's result that must not come along.
_LINK_TAIL = re.compile(r"(?<=[\w/])[?#].*$", re.DOTALL)
# Only so much of a message is searched for sentences and identifiers from either end.
_LOOK_CHARACTERS = 20_000

Kind = Literal["model", "mechanical"]


@dataclass(frozen=True, slots=True)
class Segment:
    """``text`` stands for the live messages from ``from_seq`` to ``through_seq``, both included.

    ``source_hash`` vouches for exactly those messages. ``identifiers``: those of the source that are not in the text.
    """

    level: int
    from_seq: int
    through_seq: int
    from_id: int
    through_id: int
    source_hash: str
    kind: Kind
    prompt_version: str
    text: str
    identifiers: tuple[str, ...]
    tokens: int
    source_tokens: int
    messages: int

    @property
    def anchor(self) -> tuple[int, int, str]:
        """What tells this segment from every other of its conversation."""
        return self.from_seq, self.through_seq, self.source_hash


def hash_sources(messages: Sequence[TranscriptMessage]) -> str:
    """sha256 as hex over ids and chain hashes of live messages: changes when one is edited away, not when one is added
    behind them."""
    lines = "\n".join(f"{message.id} {message.chain_hash}" for message in messages)
    return hashlib.sha256(lines.encode()).hexdigest()


def write_leaves(
    *,
    messages: Sequence[TranscriptMessage],
    after_seq: int,
    through_seq: int,
    leaf_tokens: int,
    text_tokens: int,
    counter: TokenCounter,
) -> tuple[Segment, ...]:
    """Leaves that tile the seqs from ``after_seq + 1`` to ``through_seq``, each of whole turns of about ``leaf_tokens``.

    ``messages``: every live message in that range, in order. No messages, no leaves: then there is nothing to cover.
    """
    groups: list[list[TranscriptMessage]] = []
    size = 0
    for turn in split_turns(messages):
        tokens = sum(message.tokens for message in turn)
        if not groups or size + tokens > leaf_tokens:
            groups.append([])
            size = 0
        groups[-1].extend(turn)
        size += tokens
    starts = [after_seq + 1, *(group[0].seq for group in groups[1:])]
    ends = [*(start - 1 for start in starts[1:]), through_seq]
    return tuple(
        _leaf(group, from_seq=start, through_seq=end, text_tokens=text_tokens, counter=counter)
        for group, start, end in zip(groups, starts, ends, strict=False)
    )


def merge_segments(
    *, segments: Sequence[Segment], max_tokens: int, counter: TokenCounter
) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """The list merged until it has at most ``max_tokens``, or has nothing left to merge; and the parents made for it.

    A list of segments that cannot merge may stay above the limit: the digest block then shortens it.
    """
    active = list(segments)
    made: list[Segment] = []
    while active and sum(segment.tokens + LINE_TOKENS for segment in active) > max_tokens:
        start = _mergeable(active)
        count = MERGED_AT_ONCE
        if start is None:
            # Where even the headings of all segments would not fit, the oldest merge whatever their levels.
            start, count = 0, _touching(active)
            if count == 1 or len(active) * (LINE_TOKENS + _LEAST_TEXT) <= max_tokens:
                break
        parent = _parent(active[start : start + count], counter=counter)
        made.append(parent)
        active[start : start + count] = [parent]
    return tuple(active), tuple(made)


def covered_through(segments: Sequence[Segment]) -> int:
    """The seq up to which ``segments``, ordered by range, are gapless from seq 1; 0 when there are none."""
    covered = 0
    for segment in segments:
        if segment.from_seq != covered + 1:
            break
        covered = segment.through_seq
    return covered


def _mergeable(active: Sequence[Segment]) -> int | None:
    """Where the oldest four neighbours of one level begin, lowest level first."""
    for level in sorted({segment.level for segment in active}):
        for start in range(len(active) - MERGED_AT_ONCE + 1):
            four = active[start : start + MERGED_AT_ONCE]
            if all(segment.level == level for segment in four) and _touching(four) == MERGED_AT_ONCE:
                return start
    return None


def _touching(segments: Sequence[Segment]) -> int:
    """How many of the first segments, four at most, follow each other without a gap: a parent must not claim one."""
    count = 1
    while count < min(len(segments), MERGED_AT_ONCE) and (
        segments[count].from_seq == segments[count - 1].through_seq + 1
    ):
        count += 1
    return count


def _leaf(
    messages: Sequence[TranscriptMessage],
    *,
    from_seq: int,
    through_seq: int,
    text_tokens: int,
    counter: TokenCounter,
) -> Segment:
    source_tokens = sum(message.tokens for message in messages)
    most = max(16, min(text_tokens, int(source_tokens * _LARGEST_SHARE)))
    found: dict[str, None] = {}
    for message in messages:
        for value in find_identifiers(_both_ends(message.content)):
            found.setdefault(_LINK_TAIL.sub("", value) if message.role == "tool" else value)
    text, identifiers = _fit_text(
        [line for line in map(_line, messages) if line], tuple(found), most, counter
    )
    return Segment(
        level=0,
        from_seq=from_seq,
        through_seq=through_seq,
        from_id=messages[0].id,
        through_id=messages[-1].id,
        source_hash=hash_sources(messages),
        kind="mechanical",
        prompt_version=MECHANICAL_VERSION,
        text=text,
        identifiers=identifiers,
        tokens=counter.count_text(render_segment_text(text, identifiers)),
        source_tokens=source_tokens,
        messages=len(messages),
    )


def _parent(children: Sequence[Segment], *, counter: TokenCounter) -> Segment:
    """One segment as large as the largest of its children; each child gives an equal share of its lines."""
    most = max(child.tokens for child in children)
    lines = [line for child in children for line in child.text.splitlines()]
    text, missing = _fit_text(lines, _all_identifiers(children), most, counter)
    joined = "\n".join(child.source_hash for child in children)
    return Segment(
        level=max(child.level for child in children) + 1,
        from_seq=children[0].from_seq,
        through_seq=children[-1].through_seq,
        from_id=children[0].from_id,
        through_id=children[-1].through_id,
        source_hash=hashlib.sha256(joined.encode()).hexdigest(),
        kind="mechanical",
        prompt_version=MECHANICAL_VERSION,
        text=text,
        identifiers=missing,
        tokens=counter.count_text(render_segment_text(text, missing)),
        source_tokens=sum(child.source_tokens for child in children),
        messages=sum(child.messages for child in children),
    )


def shorten_segment(segment: Segment, *, most: int, counter: TokenCounter) -> Segment:
    """The segment with text and identifiers of at most ``most`` tokens, the identifiers before the sentences."""
    if segment.tokens <= most:
        return segment
    text, listed = _fit_text(segment.text.splitlines(), _all_identifiers([segment]), most, counter)
    return replace(segment, text=text, identifiers=listed, tokens=most)


def _all_identifiers(segments: Sequence[Segment]) -> tuple[str, ...]:
    """Those listed and those in the texts, but for words that were cut and so are identifiers of nothing."""
    found: dict[str, None] = {}
    for segment in segments:
        for value in (*segment.identifiers, *find_identifiers(_CUT_WORD.sub("…", segment.text))):
            found.setdefault(value)
    return tuple(found)


def render_segment_text(text: str, identifiers: Sequence[str]) -> str:
    """A segment's text with the identifiers it does not contain."""
    listed = f"Identifiers: {', '.join(identifiers)}" if identifiers else ""
    return "\n".join(part for part in (text, listed) if part)


def _fit_text(
    lines: Sequence[str], identifiers: Sequence[str], most: int, counter: TokenCounter
) -> tuple[str, tuple[str, ...]]:
    """Lines shortened alike, then identifiers that no line contains, in at most ``most`` tokens together.

    Identifiers may take half of the room; lines that get less than a few words each give way from the middle.
    """
    width = _SENTENCE_CHARACTERS * 2
    shown = list(lines)
    while width >= 40:
        shown = [shorten_line(line, width) for line in lines]
        if counter.count_text("\n".join(shown)) <= most:
            break
        width = width * 2 // 3
    missing = _missing(identifiers, shown)
    listed = _fit_identifiers(missing, most // 2, counter)
    while len(shown) > 1 and counter.count_text(render_segment_text("\n".join(shown), listed)) > most:
        del shown[len(shown) // 2]
    listed = _fit_identifiers(_missing(identifiers, shown), most // 2, counter)
    text = "\n".join(shown)
    if counter.count_text(render_segment_text(text, listed)) <= most:
        return text, listed
    # Room for a few words: names and figures say more than the beginning of a sentence.
    listed = _fit_identifiers(tuple(identifiers), most - 2, counter)
    return ("", listed) if listed else (keep_head(text, most, counter), ())


def _missing(identifiers: Sequence[str], lines: Sequence[str]) -> tuple[str, ...]:
    text = "\n".join(lines)
    return tuple(value for value in identifiers if value not in text)


def _fit_identifiers(identifiers: Sequence[str], most: int, counter: TokenCounter) -> tuple[str, ...]:
    """The first identifiers that fit; their order is that of appearance."""
    listed: list[str] = []
    tokens = 4
    for value in identifiers:
        tokens += counter.count_text(f"{value}, ")
        if tokens > most:
            break
        listed.append(value)
    return tuple(listed)


def _line(message: TranscriptMessage) -> str:
    """One message as a line: who said it, its first and its last sentence."""
    if message.role == "tool":
        # Never its words: they are somebody else's, and the digest is not a tool's message. Its identifiers are kept.
        return f"tool result: {len(message.content):,} characters"
    names = ", ".join(call.name for call in message.tool_calls)
    said = _sentences(message.content)
    if not said:
        return f"{message.role} called {names}" if names else ""
    text = said[0] if len(said) == 1 else f"{said[0]} … {said[-1]}"
    return f"{message.role}: {text}" + (f" [called {names}]" if names else "")


def _sentences(text: str) -> list[str]:
    """First and last sentence, whitespace collapsed; one of them when there is only one."""
    pieces = [" ".join(piece.split()) for piece in _SENTENCE.split(_both_ends(text))]
    pieces = [piece for piece in pieces if piece]
    ends = pieces[:1] + pieces[-1:] if len(pieces) > 1 else pieces
    return [shorten_line(piece, _SENTENCE_CHARACTERS) for piece in ends]


def _both_ends(text: str) -> str:
    if len(text) <= 2 * _LOOK_CHARACTERS:
        return text
    return f"{text[:_LOOK_CHARACTERS]}\n{text[-_LOOK_CHARACTERS:]}"


def shorten_line(text: str, limit: int) -> str:
    """``text`` cut at a word where possible, with an ellipsis for what is missing."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    space = cut.rfind(" ")
    return f"{cut[:space] if space > limit // 2 else cut}…"
