"""The search index and what is found through it, on the real database."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentx.llm.embeddings import default_embedder
from agentx.llm.tokens import default_counter
from conversations.context.recall import RecallOptions
from conversations.models import Conversation, Message, MessageEntry
from conversations.selectors import search
from conversations.selectors.search import SAMPLE, search_conversation, search_passages
from conversations.services import index
from conversations.services.conversations import conversation_create, conversation_delete
from conversations.services.index import entries_catch_up, entries_ensure, entries_forget
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append

COUNTER = default_counter()
ROLES = {"u": Message.Role.USER, "a": Message.Role.ASSISTANT, "t": Message.Role.TOOL}
SMALL_TALK = ("The weather in the valley was mild", "Lunch was soup and bread", "The train left on time")


def _say(conversation_id: UUID, *texts: str, roles: str = "ua") -> None:
    """Append texts, in turn by the roles given, each user message opening a turn."""
    with transaction.atomic():
        row = Conversation.objects.select_for_update().get(pk=conversation_id)
        for place, text in enumerate(texts):
            role = ROLES[roles[place % len(roles)]]
            turn = row.next_turn if role == Message.Role.USER else max(1, row.next_turn - 1)
            message_append(conversation=row, new=NewMessage(role=role, content=text), turn=turn)
        conversation_counters_save(row)


@pytest.fixture
def talk(user):
    """A conversation of thirty messages: small talk, but for what is said about a kayak in the third turn."""
    conversation_id = conversation_create(user_id=user.pk).id
    texts = [f"{SMALL_TALK[number % 3]}, part {number}." for number in range(30)]
    texts[4] = "We should rent the red kayak in Bergen."
    texts[5] = "Noted: 450 euros, booking INV-2024-001."
    _say(conversation_id, *texts)
    entries_catch_up(conversation_id=conversation_id)
    return conversation_id


def _passages(conversation_id: UUID, query: str, *, before_seq: int = 31, max_tokens: int = 1000, **options):
    return search_passages(
        conversation_id=conversation_id,
        query=query,
        before_seq=before_seq,
        max_tokens=max_tokens,
        counter=COUNTER,
        options=RecallOptions(**options) if options else None,
    )


def _tool(conversation_id: UUID, query: str, **options):
    return search_conversation(conversation_id=conversation_id, query=query, counter=COUNTER, **options)


def _seqs(passages) -> set[int]:
    return {seq for passage in passages for seq in passage.seqs}


# The index


def test_every_message_gets_one_entry_and_catching_up_again_adds_none(talk):
    """INV-7 of the search index: the same work twice gives one record."""
    assert entries_catch_up(conversation_id=talk) == 0
    assert list(MessageEntry.objects.order_by("seq").values_list("seq", flat=True)) == list(range(1, 31))

    _say(talk, "And another thing")

    assert entries_catch_up(conversation_id=talk) == 1
    assert MessageEntry.objects.count() == 31


def test_an_entry_holds_words_length_and_vector(talk):
    entry = MessageEntry.objects.get(seq=6)

    assert entry.length == 8
    assert entry.role == "assistant"
    assert "'inv-2024-001':" in entry.words
    assert len(entry.vector) == 256


def test_catching_up_goes_in_batches(user, monkeypatch):
    monkeypatch.setattr(index, "BATCH", 7)
    conversation_id = conversation_create(user_id=user.pk).id
    _say(conversation_id, *[f"message {number}" for number in range(20)])

    assert entries_catch_up(conversation_id=conversation_id) == 20
    assert MessageEntry.objects.count() == 20


def test_what_leaves_the_view_is_indexed_before_it_leaves(user):
    conversation_id = conversation_create(user_id=user.pk).id
    _say(conversation_id, *[f"message {number}" for number in range(10)])

    entries_ensure(conversation_id=conversation_id, through_seq=4)
    assert list(MessageEntry.objects.order_by("seq").values_list("seq", flat=True)) == [1, 2, 3, 4]

    entries_ensure(conversation_id=conversation_id, through_seq=3)
    entries_catch_up(conversation_id=conversation_id)
    assert MessageEntry.objects.count() == 10


@pytest.mark.django_db(transaction=True)
def test_many_workers_give_one_entry_a_message(make_user):
    conversation_id = conversation_create(user_id=make_user().pk).id
    _say(conversation_id, *[f"message {number}" for number in range(60)])

    def work(_):
        try:
            return entries_catch_up(conversation_id=conversation_id)
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))

    seqs = (
        MessageEntry.objects.filter(conversation=conversation_id)
        .order_by("seq")
        .values_list("seq", flat=True)
    )
    assert list(seqs) == list(range(1, 61))


@pytest.mark.django_db(transaction=True)
def test_a_conversation_deleted_meanwhile_is_no_error(make_user, monkeypatch):
    user = make_user()
    conversation_id = conversation_create(user_id=user.pk).id
    _say(conversation_id, "one", "two")

    class Deleting:
        def embed(self, texts):
            conversation_delete(user_id=user.pk, conversation_id=conversation_id)
            return [[1.0] * 256 for _ in texts]

    monkeypatch.setattr(index, "default_embedder", Deleting)

    assert entries_catch_up(conversation_id=conversation_id) == 0
    assert MessageEntry.objects.count() == 0


def test_odd_texts_are_indexed(user):
    conversation_id = conversation_create(user_id=user.pk).id
    odd = (
        "",
        "   ",
        "'\\''",
        "…!?",
        "a" * 30_000,
        "x " * 30_000,
        "日本語のテキスト",
        "e\u0301" * 9,
        "\\x:1A",
        "a'b\\c",
    )
    _say(conversation_id, *odd)

    assert entries_catch_up(conversation_id=conversation_id) == len(odd)
    assert MessageEntry.objects.get(seq=1).vector is None


def test_a_long_text_is_indexed_by_its_first_pages(user):
    conversation_id = conversation_create(user_id=user.pk).id
    _say(conversation_id, "x " * (index.INDEXED_CHARACTERS // 2) + "kayak")
    entries_catch_up(conversation_id=conversation_id)

    assert _tool(conversation_id, "kayak").total == 0


def test_without_an_embedder_words_alone_are_indexed_and_found(talk, monkeypatch):
    entries_forget(conversation_id=talk, seqs=range(1, 31))
    monkeypatch.setattr(index, "default_embedder", lambda: None)
    monkeypatch.setattr(search, "default_embedder", lambda: None)

    assert entries_catch_up(conversation_id=talk) == 30
    assert MessageEntry.objects.filter(vector=None).count() == 30
    assert {5, 6} <= _seqs(_passages(talk, "Where do we rent the kayak?"))


def test_entries_from_before_the_embedder_do_not_disturb(talk):
    MessageEntry.objects.filter(seq__lte=20).update(vector=None)

    assert {5, 6} <= _seqs(_passages(talk, "Where do we rent the kayak?"))


# Recall


def test_a_question_brings_back_what_was_said(talk):
    passages = _passages(talk, "Where did we want to rent the kayak?")

    assert passages[0].seqs == (4, 5, 6)
    assert passages[0].turn == 2
    assert (
        "[turn 3, user] We should rent the red kayak in Bergen.\n[turn 3, assistant] Noted"
        in passages[0].text
    )


def test_one_word_of_several_is_enough(talk):
    """AND would find nothing: no message holds all these words."""
    assert {5, 6} <= _seqs(_passages(talk, "Did the kayak cost more than the tent?"))


@pytest.mark.parametrize("asked", ["inv-2024-001", "INV 2024", "booking 2024-001?", "kayaks", "renting"])
def test_other_spellings_are_found(talk, asked):
    assert _seqs(_passages(talk, asked)) & {5, 6}


@pytest.mark.parametrize(
    "nothing",
    [
        "thanks!",
        "ok go on",
        "yes please",
        "?",
        "",
        "quantum entanglement",
        "and in the valley?",
    ],
)
def test_a_question_that_needs_nothing_gets_nothing(talk, nothing):
    assert _passages(talk, nothing) == ()


def test_only_what_was_said_before_the_cut_is_brought_back(talk):
    assert _passages(talk, "kayak", before_seq=5) == ()
    assert _seqs(_passages(talk, "kayak", before_seq=6)) == {4, 5}


def test_passages_keep_to_their_tokens(talk):
    for most in (0, 15, 40, 100):
        passages = _passages(talk, "kayak booking in the valley", max_tokens=most, falloff=0.0)

        assert sum(passage.tokens for passage in passages) <= most


def test_a_synonym_is_found_by_closeness(talk):
    assert default_embedder() is not None
    _say(talk, "My physician told me to sleep more.", "Sleep well then.")
    entries_catch_up(conversation_id=talk)

    by_words = _passages(talk, "What did the doctor advise about Bergen?", before_seq=33, vector_weight=0.0)
    fused = _passages(talk, "What did the doctor advise about Bergen?", before_seq=33, falloff=0.1)

    assert 31 not in _seqs(by_words)
    assert 31 in _seqs(fused)


def test_other_conversations_are_never_searched(talk, other_user):
    theirs = conversation_create(user_id=other_user.pk).id
    _say(theirs, *[f"{text}." for text in SMALL_TALK * 3])
    entries_catch_up(conversation_id=theirs)

    assert _passages(theirs, "kayak") == ()
    assert _tool(theirs, "kayak").hits == ()


def test_superseded_and_deleted_messages_are_not_brought_back(talk):
    """ATT-14: a deleted message is not found, whether or not its entry is gone already."""
    Message.objects.filter(conversation=talk, seq=5).update(superseded_at=timezone.now())
    Message.objects.filter(conversation=talk, seq=6).update(deleted_at=timezone.now())

    assert not _seqs(_passages(talk, "rent kayak booking")) & {5, 6}
    assert not {hit.seq for hit in _tool(talk, "rent kayak booking").hits} & {5, 6}

    entries_forget(conversation_id=talk, seqs=[5, 6])

    assert entries_catch_up(conversation_id=talk) == 0
    assert _passages(talk, "rent kayak booking") == ()
    assert _tool(talk, "rent kayak booking").total == 0


def test_scripts_without_spaces_are_found(talk):
    _say(talk, "我们在卑尔根租了一条红色的皮划艇。", "好的。", "แมวของฉันชื่อส้ม", "น่ารัก")
    entries_catch_up(conversation_id=talk)

    assert 31 in _seqs(_passages(talk, "皮划艇是什么颜色?", before_seq=35))
    assert 33 in _seqs(_passages(talk, "แมวชื่ออะไร", before_seq=35))


# The tool


def test_the_tool_gives_marked_excerpts_with_their_place(talk):
    result = _tool(talk, "kayak Bergen", max_results=1)

    (hit,) = result.hits
    assert (hit.seq, hit.turn, hit.role, hit.rank) == (5, 3, "user", 1)
    assert hit.excerpt == "We should rent the red **kayak** in **Bergen**."
    assert hit.after == "Noted: 450 euros, booking INV-2024-001."
    assert hit.created_at == Message.objects.get(conversation=talk, seq=5).created_at
    assert result.total == 3


def test_what_stands_beside_a_match_is_found_with_it_and_shown_once(talk):
    """The answer to a question often has none of its words."""
    hits = _tool(talk, "red kayak").hits

    assert [hit.seq for hit in hits] == [5, 4, 6]
    assert hits[0].before == hits[0].after == ""
    assert hits[2].excerpt == "Noted: 450 euros, booking INV-2024-001."


@pytest.mark.parametrize(("asked", "given"), [(0, 1), (1, 1), (5, 5), (20, 20), (100, 20)])
def test_the_tool_gives_one_to_twenty_hits(talk, asked, given):
    result = _tool(talk, "weather lunch train", max_results=asked)

    assert len(result.hits) == given
    assert result.total == 30


def test_the_tool_asks_for_roles(talk):
    """ATT-14: all, user or assistant."""
    assert {hit.role for hit in _tool(talk, "weather lunch train", role_filter="user").hits} == {"user"}
    assert {hit.role for hit in _tool(talk, "weather lunch train", role_filter="assistant").hits} == {
        "assistant"
    }
    assert [hit.seq for hit in _tool(talk, '"red kayak"', role_filter="assistant").hits] == []


def test_quotes_and_minus_are_honoured(talk):
    _say(talk, "The kayak was red", "A blue kayak")
    entries_catch_up(conversation_id=talk)

    assert {hit.seq for hit in _tool(talk, '"red kayak"').hits} == {5}
    assert {5, 31} <= {hit.seq for hit in _tool(talk, "red kayak").hits}
    assert 32 not in {hit.seq for hit in _tool(talk, "kayak -blue").hits}
    assert 5 not in {hit.seq for hit in _tool(talk, 'kayak -"red kayak"').hits}


def test_tool_results_are_found(user):
    conversation_id = conversation_create(user_id=user.pk).id
    _say(
        conversation_id,
        "Read the file",
        "Reading",
        '{"path": "src/kayak.py", "lines": 40}',
        "Done",
        roles="uata",
    )
    entries_catch_up(conversation_id=conversation_id)

    assert _tool(conversation_id, "src/kayak.py").hits[0].role == "tool"


def test_a_search_for_nothing_finds_nothing(talk):
    assert _tool(talk, " -kayak ") == _tool(talk, "") == search.SearchResult(hits=(), total=0)


# Cost


def _fill(conversation_id: UUID, count: int, *, marks: dict[int, str]) -> None:
    """``count`` messages and their entries by plain SQL, all alike but for ``marks``."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO conversations_message (conversation_id, seq, turn, role, content, parts, tool_calls,
                tool_call_id, status, token_count, tokenizer, cumulative_tokens, chain_hash, metadata, created_at)
            SELECT %s, n, (n + 1) / 2, CASE WHEN n %% 2 = 1 THEN 'user' ELSE 'assistant' END,
                coalesce(%s::jsonb ->> n::text, 'common talk number ' || n), '[]', '[]', '', 'complete', 5, 'x', n * 5,
                '', '{}', now()
            FROM generate_series(1, %s) AS n
            """,
            [conversation_id, json.dumps({str(seq): text for seq, text in marks.items()}), count],
        )
        cursor.execute(
            """
            INSERT INTO conversations_messageentry (message_id, conversation_id, seq, role, length, words)
            SELECT id, conversation_id, seq, role, 4, to_tsvector('simple', content) FROM conversations_message
            WHERE conversation_id = %s
            """,
            [conversation_id],
        )
        cursor.execute("ANALYZE conversations_messageentry")


@pytest.fixture
def long_talk(user):
    """A conversation of 20,000 messages among others; a kayak is mentioned at the very beginning."""
    conversation_id = conversation_create(user_id=user.pk).id
    _fill(conversation_create(user_id=user.pk).id, 5_000, marks={7: "a kayak elsewhere"})
    _fill(conversation_id, 20_000, marks={11: "we rented a kayak", 12: "450 euros", 13: "kayak again"})
    return conversation_id


def test_the_oldest_message_of_a_long_conversation_is_found(long_talk):
    passages = _passages(long_talk, "What did the kayak cost?", before_seq=20_001)

    assert _seqs(passages) == set(range(9, 16))


def test_a_phrase_of_common_words_is_found_among_old_messages(long_talk):
    assert [hit.seq for hit in _tool(long_talk, '"talk number 77"').hits] == [77]


def test_searching_takes_a_few_queries_however_long_the_conversation_is(talk, long_talk):
    """INV-10: the number of queries does not grow."""
    with CaptureQueriesContext(connection) as short:
        _passages(talk, "kayak")
    with CaptureQueriesContext(connection) as long:
        _passages(long_talk, "kayak", before_seq=20_001)
    with CaptureQueriesContext(connection) as tool:
        _tool(long_talk, "kayak")

    assert (len(short), len(long), len(tool)) == (2, 3, 4)


def test_searching_reads_a_bounded_number_of_entries_through_indexes(long_talk):
    """INV-10: the work depends on the query, not on the conversation's length."""
    with CaptureQueriesContext(connection) as queries:
        _passages(long_talk, "What did the kayak cost, in common talk?", before_seq=20_001)

    plans = []
    with connection.cursor() as cursor:
        for query in queries.captured_queries:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query['sql']}")
            plans.append(cursor.fetchall()[0][0][0]["Plan"])
    nodes = [node for plan in plans for node in _nodes(plan)]
    on_entries = [node for node in nodes if node.get("Relation Name") == "conversations_messageentry"]

    assert not any(node["Node Type"] == "Seq Scan" for node in on_entries)
    assert {node.get("Index Name") for node in nodes} >= {"message_entry_seq", "message_entry_keys"}
    assert max(node["Actual Rows"] * node["Actual Loops"] for node in nodes) <= SAMPLE
    assert sum(node.get("Rows Removed by Filter", 0) for node in on_entries) <= SAMPLE


def _nodes(plan: dict) -> list[dict]:
    return [plan, *(node for child in plan.get("Plans", []) for node in _nodes(child))]


def test_another_conversation_of_the_same_words_costs_nothing(long_talk, make_user):
    for _ in range(3):
        _fill(conversation_create(user_id=make_user().pk).id, 2_000, marks={5: "kayak", 6: "kayak"})

    assert _seqs(_passages(long_talk, "What did the kayak cost?", before_seq=20_001)) == set(range(9, 16))


@pytest.mark.django_db
def test_keys_of_words_differ_between_conversations():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT agentx_word_key(%s, 'kayak'), agentx_word_key(%s, 'kayak'), agentx_word_keys(%s, %s::tsvector)",
            [uuid4(), uuid4(), uuid4(), ""],
        )
        one, other, none = cursor.fetchall()[0]

    assert one != other
    assert none == []
