"""Old words as they are shown again: what of a long message, in how many tokens, with which label."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from conversations.context.recall import Ranked
from conversations.context.types import Passage, TokenCounter
from conversations.context.words import TOKENS, fold_text, query_words

# A message is shown whole up to the first, and its neighbours up to the second, in tokens.
EXCERPT_TOKENS, NEIGHBOUR_TOKENS = 300, 100
# The messages beside one that was found come along when it is at least half as good as the best.
NEIGHBOURS_FROM = 0.5
# Filling ends when fewer tokens are left than a label and a few words take, or after so many that did not fit.
_SMALLEST, _REFUSALS = 16, 8
# What a label takes, and the least that is worth showing of a message that has more, in tokens.
_LABEL_TOKENS, _LEAST_EXCERPT = 10, 40
_GAP = " … "

# The unit of an excerpt: a sentence or a line, or a part of one that is longer than 240 characters.
_SEGMENT = re.compile(
    r"[^\n.!?。！？]{1,240}(?:[.!?。！？]+[\"'”’)\]]*\s*|\n\s*|(?=[^\n.!?。！？])|$)|[.!?。！？\s]+"
)


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message the index pointed to, with its text (at most what is indexed of it) and estimated tokens."""

    seq: int
    turn: int
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class _Piece:
    message: FoundMessage
    text: str
    score: float
    tokens: int


def choose_passages(
    *,
    ranked: Sequence[Ranked],
    messages: Mapping[int, FoundMessage],
    terms: Collection[str],
    max_tokens: int,
    falloff: float,
    counter: TokenCounter,
) -> tuple[Passage, ...]:
    """The best messages with their neighbours as passages in transcript order, at most ``max_tokens`` in all.

    ``ranked``: best first; what scores less than ``falloff`` is left out. ``messages``: by seq; a seq that is not in it
    is not shown. An excerpt shrinks to what is left; when that is too little, it is passed over for something smaller.
    """
    pieces: dict[int, _Piece] = {}
    left, refused = max_tokens, 0
    for hit in ranked:
        if hit.score < falloff or left < _SMALLEST or refused > _REFUSALS:
            break
        for seq in (hit.seq, hit.seq + 1, hit.seq - 1) if hit.score >= NEIGHBOURS_FROM else (hit.seq,):
            message = messages.get(seq)
            if message is None or seq in pieces or not message.content.strip():
                continue
            most = min(EXCERPT_TOKENS if seq == hit.seq else NEIGHBOUR_TOKENS, left - _LABEL_TOKENS)
            if most < _LEAST_EXCERPT and len(message.content) > 4 * most:
                refused += 1
                continue
            text = label(message) + _quote(message, terms=terms, max_tokens=most, counter=counter)
            tokens = counter.count_text(text + "\n")
            if tokens <= left:
                pieces[seq] = _Piece(message, text, hit.score, tokens)
                left -= tokens
            else:
                refused += 1
    return _merge(pieces, counter, max_tokens)


def _quote(message: FoundMessage, *, terms: Collection[str], max_tokens: int, counter: TokenCounter) -> str:
    """What is shown of a message. The words of a tool's result stay in messages of tools: they may be anybody's."""
    if message.role == "tool":
        return f"a result has these words; read_thread(center_turn={message.turn}) gives it"
    return cut_excerpt(text=message.content, terms=terms, max_tokens=max_tokens, counter=counter)


def label(message: FoundMessage) -> str:
    """What stands before an excerpt, so that it is read as a quotation from earlier."""
    return f"[turn {message.turn}, {message.role}] "


def _merge(pieces: dict[int, _Piece], counter: TokenCounter, max_tokens: int) -> tuple[Passage, ...]:
    groups: list[list[_Piece]] = []
    for seq in sorted(pieces):
        if groups and groups[-1][-1].message.seq == seq - 1:
            groups[-1].append(pieces[seq])
        else:
            groups.append([pieces[seq]])
    passages: list[Passage] = []
    for group in groups:
        text = "\n".join(piece.text for piece in group)
        passages.append(
            Passage(
                turn=group[0].message.turn,
                seqs=tuple(piece.message.seq for piece in group),
                text=text,
                score=max(piece.score for piece in group),
                tokens=counter.count_text(text),
            )
        )
    # Joined texts may count a token more than their parts; then the worst passage gives way.
    while sum(passage.tokens for passage in passages) > max_tokens:
        passages.remove(min(passages, key=lambda passage: passage.score))
    return tuple(passages)


def cut_excerpt(*, text: str, terms: Collection[str], max_tokens: int, counter: TokenCounter) -> str:
    """The text whole when it has at most ``max_tokens``, else its sentences with most of ``terms`` and what is around
    them, in order, with ``…`` where something is left out."""
    text = text.strip()
    # No tokenizer makes more tokens than bytes; short texts need no counting.
    if len(text.encode()) <= max_tokens:
        return text
    tokens = counter.count_text(text)
    if tokens <= max_tokens:
        return text
    segments = _SEGMENT.findall(text)
    room = int(len(text) * max_tokens / tokens)
    while True:
        excerpt = _join(segments, _pick_segments(segments, terms, room))
        if counter.count_text(excerpt) <= max_tokens or room < 8:
            return excerpt
        room = room * 9 // 10


def _pick_segments(segments: Sequence[str], terms: Collection[str], room: int) -> set[int]:
    """Indices of the segments to show: those with most terms, each with what follows and precedes it, in ``room``
    characters."""
    # Nearly every form of a word has its lexeme in it letter by letter, but for the last one ("story", "stories").
    stems = {term[:-1] if len(term) > 4 else term for term in terms}
    hits = _count_stems(segments, stems)
    order = sorted((at for at, hit in enumerate(hits) if hit), key=lambda at: (-hits[at], at)) or [0]
    picked: set[int] = set()
    left = room
    # First the places themselves, then wider and wider around them.
    for reach in range(len(segments)):
        grown = False
        for at in order if reach == 0 else order[:3]:
            for near in {at + reach, at - reach}:
                if not 0 <= near < len(segments) or near in picked:
                    continue
                cost = len(segments[near]) + len(_GAP)
                if cost <= left:
                    picked.add(near)
                    left -= cost
                    grown = True
        if not grown and reach > 1:
            break
    return picked


def _count_stems(segments: Sequence[str], stems: Collection[str]) -> list[int]:
    """How many of the stems each segment has."""
    joined = "\n".join(segments)
    # Folding ASCII is lowering it, which keeps every place where it is.
    folded = joined.lower().split("\n") if joined.isascii() and "\n" not in "".join(segments) else None
    texts = folded if folded is not None else [fold_text(segment) for segment in segments]
    return [len([stem for stem in stems if stem in text]) for text in texts]


def _join(segments: Sequence[str], picked: set[int]) -> str:
    parts: list[str] = []
    last = -1
    for at in sorted(picked):
        if at != last + 1:
            parts.append(_GAP if parts else _GAP.lstrip())
        parts.append(segments[at])
        last = at
    if last < len(segments) - 1:
        parts.append(_GAP.rstrip())
    return "".join(parts).strip()


def mark_terms(*, text: str, terms: Collection[str], mark: str = "**") -> str:
    """The text with ``mark`` around every word that has a lexeme among ``terms``; in scripts without spaces, around the
    characters that are found."""
    wanted = set(terms)

    def marked(found: re.Match[str]) -> str:
        if found.lastgroup == "unspaced":
            pairs = "|".join(re.escape(term) for term in sorted(wanted, key=len, reverse=True))
            return re.sub(f"(?:{pairs})+" if pairs else "(?!)", rf"{mark}\g<0>{mark}", found[0])
        lexemes = {word.lexeme for word in query_words(found[0])}
        return f"{mark}{found[0]}{mark}" if lexemes & wanted else found[0]

    return TOKENS.sub(marked, text)
