"""Search in one conversation: unasked, for what a question needs from turns that left the view, and asked, by a tool.

The work depends on the query, not on the conversation: the newest entries are read through (conversation, seq) and
tell how rare each word is; older ones are reached through the index of rare words alone. Both answers come with three
queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db import connection

from agentx.llm.embeddings import default_embedder
from conversations.context.excerpts import (
    EXCERPT_TOKENS,
    NEIGHBOUR_TOKENS,
    NEIGHBOURS_FROM,
    FoundMessage,
    choose_passages,
    cut_excerpt,
    mark_terms,
)
from conversations.context.recall import (
    BITS_PER_TERM,
    Match,
    Ranked,
    RecallOptions,
    SearchQuery,
    rank_matches,
    read_question,
    read_search,
    render_phrase,
    weigh_term,
    weigh_terms,
)
from conversations.context.types import Passage, TokenCounter
from conversations.context.words import quote_lexeme
from conversations.models import Message

MOST_RESULTS = 20
RoleFilter = Literal["all", "user", "assistant"]

# Entries that are scanned one by one, the rest being reached by rare words. Twice as many kept no question more in the
# retention benchmark and take twice the time.
SAMPLE = 400
# Older entries are looked up by this many of the rarest words, if at most this share of the sample has them, and for
# each word at most so many; of those found, the ones with the weightiest words are scored.
RARE_TERMS, RARE_SHARE, LOOKED_UP, SCORED = 6, 0.1, 100, 60
# No more hits are read than fit when each takes so few tokens, label and neighbours included.
TOKENS_PER_HIT = 25
_CONTENT_CHARACTERS = 20_000
_AFTER_ALL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One message found. ``excerpt``: its text around the matches, which stand between ``**``. ``rank``: 1 is the best.

    ``before``, ``after``: excerpts of the messages beside it, empty for a weak hit or where they are hits themselves.
    """

    seq: int
    turn: int
    role: str
    created_at: datetime
    rank: int
    excerpt: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """``total``: messages with any of the words in them or beside them, of those looked at; ``hits``: the best of them."""

    hits: tuple[SearchHit, ...]
    total: int


def search_passages(
    *,
    conversation_id: UUID,
    query: str,
    before_seq: int,
    max_tokens: int,
    counter: TokenCounter,
    options: RecallOptions | None = None,
) -> tuple[Passage, ...]:
    """What was said before ``before_seq`` that ``query`` needs, in transcript order; nothing when it needs nothing."""
    options = options or RecallOptions()
    question = read_question(query)
    if not question.terms or max_tokens <= 0 or before_seq <= 1:
        return ()
    ranked, telling = _rank(
        conversation_id=conversation_id, query=question, before_seq=before_seq, options=options
    )
    if not telling:
        return ()
    best = [hit for hit in ranked if hit.score >= options.falloff][: max(8, max_tokens // TOKENS_PER_HIT)]
    near = {seq + step for seq in _seqs(best) for step in (-1, 0, 1)}
    messages = _read_messages(conversation_id, {seq for seq in near if seq < before_seq})
    return choose_passages(
        ranked=best,
        messages=messages,
        terms=question.terms,
        max_tokens=max_tokens,
        falloff=options.falloff,
        counter=counter,
    )


def search_conversation(
    *,
    conversation_id: UUID,
    query: str,
    counter: TokenCounter,
    max_results: int = 5,
    role_filter: RoleFilter = "all",
) -> SearchResult:
    """The messages of a whole conversation that match best. ``max_results`` is brought into 1–20.

    Words are alternatives; ``"quoted words"`` must occur, ``-word`` must not. Access is the caller's to check.
    """
    search = read_search(query)
    if not search.terms:
        return SearchResult(hits=(), total=0)
    ranked, _ = _rank(
        conversation_id=conversation_id,
        query=search,
        before_seq=_AFTER_ALL,
        options=RecallOptions(),
        role_filter=role_filter,
    )
    matched = [hit for hit in ranked if hit.matched]
    best = matched[: max(1, min(max_results, MOST_RESULTS))]
    strong = {hit.seq for hit in best if hit.score >= NEIGHBOURS_FROM}
    rows = _read_messages(
        conversation_id, {*_seqs(best), *(seq + step for seq in strong for step in (-1, 1))}
    )
    written = _read_times(conversation_id, list(rows))
    shown = [hit for hit in best if hit.seq in written]
    taken = set(_seqs(shown))

    def beside(seq: int, near: int) -> str:
        if seq not in strong or near in taken or near not in rows:
            return ""
        taken.add(near)
        return cut_excerpt(
            text=rows[near].content, terms=search.terms, max_tokens=NEIGHBOUR_TOKENS, counter=counter
        )

    hits = tuple(
        SearchHit(
            seq=hit.seq,
            turn=rows[hit.seq].turn,
            role=rows[hit.seq].role,
            created_at=written[hit.seq],
            rank=place,
            excerpt=mark_terms(
                text=cut_excerpt(
                    text=rows[hit.seq].content,
                    terms=search.terms,
                    max_tokens=EXCERPT_TOKENS,
                    counter=counter,
                ),
                terms=search.terms,
            ),
            before=beside(hit.seq, hit.seq - 1),
            after=beside(hit.seq, hit.seq + 1),
        )
        for place, hit in enumerate(shown, 1)
    )
    return SearchResult(hits=hits, total=len(matched) - (len(best) - len(shown)))


def _rank(
    *,
    conversation_id: UUID,
    query: SearchQuery,
    before_seq: int,
    options: RecallOptions,
    role_filter: RoleFilter = "all",
) -> tuple[tuple[Ranked, ...], bool]:
    """Two queries: the newest entries, then older ones that have the query's rare words."""
    columns, values = _columns(query, role_filter, with_vector=options.vector_weight > 0)
    sample = _read_matches(
        f"SELECT {columns} FROM conversations_messageentry WHERE conversation_id = %s AND seq < %s"
        " ORDER BY seq DESC LIMIT %s",
        [*values, conversation_id, before_seq, SAMPLE],
    )
    weights = weigh_terms(sample=sample, terms=len(query.terms))
    older: list[Match] = []
    if len(sample) == SAMPLE:
        older = _older_matches(conversation_id, query, columns, values, sample, weights)
    return rank_matches(matches=[*older, *sample], weights=weights, sample_size=len(sample), options=options)


def _columns(query: SearchQuery, role_filter: RoleFilter, *, with_vector: bool) -> tuple[str, list[Any]]:
    """What is selected of each entry: the columns of :class:`Match`, in order."""
    mask, values = [], [_any_of(query.terms)]
    for place, term in enumerate(query.terms):
        lexeme = quote_lexeme(term)
        mask.append(
            "((CASE WHEN NOT words @@ %s::tsquery THEN 0 WHEN words @@ %s::tsquery THEN 3"
            f" WHEN words @@ %s::tsquery THEN 2 ELSE 1 END)::bigint << {BITS_PER_TERM * place})"
        )
        values += [lexeme, f"{lexeme}:A", f"{lexeme}:B"]
    embedder = default_embedder() if with_vector else None
    closeness = "NULL"
    vector: list[Any] = []
    if embedder is not None:
        closeness = "-(vector <#> %s::halfvec)"
        vector = [_vector_literal(embedder.embed([query.text])[0])]
    wanted, conditions = [], []
    if role_filter != "all":
        wanted.append("role = %s")
        conditions.append(role_filter)
    for phrase in query.phrases:
        wanted.append("words @@ %s::tsquery")
        conditions.append(render_phrase(phrase))
    for phrase in query.excluded:
        wanted.append("NOT words @@ %s::tsquery")
        conditions.append(render_phrase(phrase))
    columns = (
        f"seq, length, CASE WHEN words @@ %s::tsquery THEN {' | '.join(mask)} ELSE 0 END AS mask,"
        f" {closeness} AS closeness, {' AND '.join(wanted) or 'true'} AS wanted"
    )
    return columns, [*values, *vector, *conditions]


def _older_matches(
    conversation_id: UUID,
    query: SearchQuery,
    columns: str,
    values: list[Any],
    sample: Sequence[Match],
    weights: Sequence[float],
) -> list[Match]:
    """Entries before the sample that have a rare word or a whole phrase of the query, and their neighbours."""
    common = weigh_term(total=SAMPLE, having=int(SAMPLE * RARE_SHARE))
    rare = sorted(
        (weight, term) for weight, term in zip(weights, query.terms, strict=True) if weight >= common
    )
    sources = [([term], weight) for weight, term in rare[-RARE_TERMS:]]
    sources += [([word.lexeme for word in phrase], max(weights)) for phrase in query.phrases]
    if not sources:
        return []
    oldest = sample[0].seq
    lookups, found = [], []
    for lexemes, weight in sources:
        keys = ", ".join(["agentx_word_key(%s, %s)"] * len(lexemes))
        lookups.append(
            "(SELECT conversation_id, seq, %s::float AS weight FROM conversations_messageentry"
            # "+ 0": no index on seq shall tempt the planner to walk through other conversations.
            f" WHERE agentx_word_keys(conversation_id, words) @> ARRAY[{keys}] AND seq + 0 < %s LIMIT %s)"
        )
        found += [weight, *(value for lexeme in lexemes for value in (conversation_id, lexeme))]
        found += [oldest, LOOKED_UP]
    return _read_matches(
        f"""
        WITH found AS MATERIALIZED (
            SELECT seq FROM ({" UNION ALL ".join(lookups)}) AS looked_up WHERE conversation_id = %s
            GROUP BY seq ORDER BY sum(weight) DESC, seq DESC LIMIT %s
        ), near AS MATERIALIZED (
            SELECT DISTINCT seq + step AS seq FROM found, unnest(ARRAY[-1, 0, 1]) AS step
        )
        SELECT {columns} FROM near JOIN conversations_messageentry USING (seq)
        WHERE conversation_id = %s AND seq < %s ORDER BY seq DESC
        """,
        [*found, conversation_id, SCORED, *values, conversation_id, oldest],
    )


def _read_matches(sql: str, values: Sequence[Any]) -> list[Match]:
    """The rows in order of seq; the statements give the newest first."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows = cursor.fetchall()
    return [Match(*row) for row in reversed(rows)]


def _read_messages(conversation_id: UUID, seqs: set[int]) -> dict[int, FoundMessage]:
    """Messages by seq, those that are superseded or deleted left out whatever the index still says."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT seq, turn, role, left(content, %s) FROM conversations_message"
            " WHERE conversation_id = %s AND seq = ANY(%s) AND superseded_at IS NULL AND deleted_at IS NULL",
            [_CONTENT_CHARACTERS, conversation_id, sorted(seqs)],
        )
        return {row[0]: FoundMessage(*row) for row in cursor.fetchall()}


def _read_times(conversation_id: UUID, seqs: list[int]) -> dict[int, datetime]:
    """When those messages were written. Apart from their texts: recall asks for many messages and for no time."""
    found = Message.objects.filter(conversation_id=conversation_id, seq__in=seqs)
    return dict(found.values_list("seq", "created_at"))


def _seqs(hits: Sequence[Ranked]) -> list[int]:
    return [hit.seq for hit in hits]


def _any_of(terms: Sequence[str]) -> str:
    return " | ".join(quote_lexeme(term) for term in terms)


def _vector_literal(vector: Sequence[float]) -> str:
    return "[" + ",".join(f"{number:.5f}" for number in vector) + "]"
