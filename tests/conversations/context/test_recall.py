"""Reading a question, scoring messages, and what is shown of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.llm.tokens import default_counter
from conversations.context.excerpts import FoundMessage, choose_passages, cut_excerpt, mark_terms
from conversations.context.recall import (
    MOST_TERMS,
    Match,
    Ranked,
    RecallOptions,
    rank_matches,
    read_question,
    read_search,
    render_phrase,
    weigh_terms,
)
from conversations.context.words import (
    LAST_POSITION,
    LONGEST_WORD,
    Word,
    index_words,
    query_words,
    render_lexemes,
)

COUNTER = default_counter()
WORDS_ONLY = RecallOptions(vector_weight=0.0)


def _lexemes(text: str) -> list[str]:
    return [word.lexeme for word in index_words(text)]


# Words


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("The Kayaks were rented", "rent a kayak"),
        ("Caroline's painting", "paintings of Caroline"),
        ("she moved on", "moving"),
        ("we hiked", "a hike"),
        ("no fix", "fixing"),
        ("paid for eating", "eat"),
        ("we planned it", "planning"),
        ("two stories", "the story"),
        ("boxes", "box"),
        ("CAFÉ", "cafe"),
        ("Größe", "GRÖSSE"),
        ("Ёлка", "елка"),
        ("ﬁle", "file"),
        ("１２３", "123"),
        ("costs 1,250,000 euros", "1250000"),
        ("die Rechnungen", "rechnungen"),
        ("l'eau potable", "eau"),
    ],
)
def test_spellings_of_one_word_meet(stored, asked):
    found = {word.lexeme for word in index_words(stored)}

    assert found & {word.lexeme for word in query_words(asked)}


@pytest.mark.parametrize(
    ("one", "other"),
    [("bus", "bu"), ("class", "clas"), ("ring", "r"), ("string", "str"), ("bed", "b"), ("care", "car")],
)
def test_short_words_keep_their_endings(one, other):
    assert _lexemes(one) != [other]


def test_identifiers_are_kept_whole_and_in_parts():
    assert _lexemes("INV-2024-001") == ["inv", "2024", "001", "inv-2024-001"]
    assert _lexemes("ask a.b@x.org") == ["ask", "a", "b", "x", "org", "a.b@x.org"]
    assert _lexemes("v1.2.3") == ["v1", "2", "3", "v1.2.3"]


def test_parts_of_an_identifier_follow_each_other_and_the_whole_stands_with_the_first():
    assert index_words("see INV-7 now") == [
        Word("see", 1),
        Word("inv", 2),
        Word("7", 3),
        Word("inv-7", 2),
        Word("now", 4),
    ]


def test_scripts_without_spaces_are_found_by_pairs_of_characters():
    assert _lexemes("猫が好き") == ["猫が", "が好", "好き", "猫", "好"]
    assert [word.lexeme for word in query_words("猫が好き")] == ["猫が", "が好", "好き"]
    assert [word.lexeme for word in query_words("猫")] == ["猫"]
    assert _lexemes("แมว") == ["แม", "มว"]


def test_vowel_signs_stay_in_their_words():
    assert _lexemes("हिन्दी में") == ["हिन्दी", "में"]


def test_long_words_are_told_apart_by_their_beginning():
    assert _lexemes("x" * 5000) == ["x" * LONGEST_WORD]


def test_lexemes_are_weighted_by_how_often_they_occur():
    words = index_words("kayak oar oar map map map map")

    assert render_lexemes(words) == "'kayak':1 'oar':2B,3B 'map':4A,5A,6A,7A"


@given(st.text(max_size=300))
def test_any_text_gives_words_that_a_tsvector_can_hold(text):
    for word in index_words(text):
        assert 1 <= word.position <= LAST_POSITION
        assert 0 < len(word.lexeme) <= LONGEST_WORD
        assert "\x00" not in word.lexeme


@given(st.text(max_size=300))
def test_whatever_is_asked_for_in_the_same_words_is_found(text):
    assert {word.lexeme for word in query_words(text)} <= set(_lexemes(text))


# Questions


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?!",
        "thanks!",
        "ok go on",
        "Great, thank you so much!",
        "yes please",
        "continue",
        "and then?",
        "Danke!",
        "merci",
        "继续",
        "ありがとう",
        "спасибо",
    ],
)
def test_a_message_that_names_no_subject_asks_for_nothing(text):
    assert read_question(text).terms == ()


def test_a_question_is_its_words_without_function_words():
    assert read_question("When did we rent the kayak, and the kayak's oars?").terms == (
        "rent",
        "kayak",
        "oar",
    )


def test_of_a_long_question_the_identifiers_and_longest_words_are_looked_for():
    text = " ".join(f"w{'o' * length}rd" for length in range(40)) + " INV-7"

    terms = read_question(text).terms

    assert len(terms) == MOST_TERMS
    assert {"inv-7", "7"} <= set(terms)
    assert f"w{'o' * 39}rd" in terms
    assert "wrd" not in terms


def test_a_search_honours_quotes_and_minus():
    search = read_search('kayak "north shore" -rain -"last year"')

    assert search.terms == ("kayak", "north", "shor")
    assert [render_phrase(phrase) for phrase in search.phrases] == ["'north' <1> 'shor'"]
    assert [render_phrase(phrase) for phrase in search.excluded] == ["'rain'", "'last' <1> 'year'"]


def test_quoted_function_words_are_looked_for():
    assert read_search('"to be" hamlet').terms == ("hamlet", "to", "be")


def test_a_hyphen_within_a_word_excludes_nothing():
    assert read_search("INV-2024 well-known - x").excluded == ()


def test_a_phrase_with_an_identifier_holds_it_whole():
    assert (
        render_phrase(tuple(query_words("pay INV-7 now"))) == "'pay' <1> ('inv' & 'inv-7') <1> '7' <1> 'now'"
    )


def test_a_search_for_function_words_alone_looks_for_them():
    assert read_search("to be").terms == ("to", "be")


# Scores


def _matches(*masks: int, length: int = 10) -> list[Match]:
    return [Match(seq=seq, length=length, mask=mask) for seq, mask in enumerate(masks, 1)]


def _rank(matches: list[Match], terms: int, options: RecallOptions = WORDS_ONLY):
    weights = weigh_terms(sample=matches, terms=terms)
    return rank_matches(matches=matches, weights=weights, sample_size=len(matches), options=options)


def test_a_rare_word_outweighs_a_common_one():
    first, second = 0b01, 0b0100
    matches = _matches(first, 0, first, 0, first, 0, second, 0, first)

    ranked, _ = _rank(matches, terms=2)

    assert ranked[0].seq == 7


def test_words_are_alternatives_and_more_of_them_are_better():
    ranked, _ = _rank(_matches(0b01, 0, 0b0101, 0, 0b0100, 0), terms=2)

    assert ranked[0].seq == 3
    assert {hit.seq for hit in ranked if hit.matched} == {1, 2, 3, 4, 5, 6}


def test_a_neighbours_word_counts_less_than_ones_own():
    ranked, _ = _rank(_matches(0, 0, 0b01, 0, 0, 0), terms=1)

    assert [hit.seq for hit in ranked[:3]] == [3, 4, 2]
    assert 0.4 < ranked[1].score < 0.8
    assert ranked[3].score == 0


def test_messages_with_a_gap_between_them_are_no_neighbours():
    ranked, _ = _rank([Match(seq=1, length=5, mask=1), Match(seq=3, length=5, mask=0)], terms=1)

    assert ranked[1] == Ranked(seq=3, score=0.0, matched=False)


def test_repetition_counts_and_length_counts_against():
    once, often = 0b01, 0b11
    ranked, _ = _rank(_matches(once, 0, 0, often, 0, 0), terms=1)
    assert ranked[0].seq == 4

    long = [match._replace(length=100 if match.seq == 1 else 5) for match in _matches(once, 0, 0, once, 0, 0)]
    ranked, _ = _rank(long, terms=1)
    assert ranked[0].seq == 4


def test_closeness_decides_between_equal_words_and_finds_what_has_none():
    matches = _matches(0b01, 0, 0, 0b01, 0, 0, 0, 0)
    near = {4: 0.9, 7: 0.8}
    matches = [match._replace(closeness=near.get(match.seq, 0.0)) for match in matches]

    ranked, _ = _rank(matches, terms=1, options=RecallOptions(vector_weight=0.4))

    assert [hit.seq for hit in ranked[:2]] == [4, 1]
    assert next(hit for hit in ranked if hit.seq == 7).score > 0


def test_what_the_search_excludes_is_not_ranked_but_stands_beside_others():
    matches = [match._replace(wanted=match.seq != 2) for match in _matches(0, 0b01, 0, 0, 0)]

    ranked, _ = _rank(matches, terms=1)

    assert [hit.seq for hit in ranked if hit.score] == [3, 1]


def test_a_word_that_most_messages_have_is_not_worth_showing_unasked():
    assert _rank(_matches(*[0b01, 0b01, 0] * 10), terms=1)[1] is False
    assert _rank(_matches(0b01, *[0] * 29), terms=1)[1] is True


def test_one_word_of_many_is_not_worth_showing_unasked():
    ten_terms_one_found = _matches(0b01, *[0] * 29)

    assert _rank(ten_terms_one_found, terms=3)[1] is True
    assert _rank(ten_terms_one_found, terms=10)[1] is False


def test_no_messages_rank_as_nothing():
    assert _rank([], terms=2) == ((), False)


# Passages


def _found(*texts: str) -> dict[int, FoundMessage]:
    roles = ("user", "assistant")
    return {
        seq: FoundMessage(seq=seq, turn=(seq + 1) // 2, role=roles[(seq + 1) % 2], content=text)
        for seq, text in enumerate(texts, 1)
    }


def _choose(ranked, messages, *, max_tokens=1000, falloff=0.5, terms=("kayak",)):
    return choose_passages(
        ranked=ranked,
        messages=messages,
        terms=terms,
        max_tokens=max_tokens,
        falloff=falloff,
        counter=COUNTER,
    )


def test_a_hit_brings_its_neighbours_as_one_labelled_passage():
    messages = _found("Hello", "Hi", "I rented a kayak", "How was it?", "Wet", "I see")

    (passage,) = _choose([Ranked(seq=3, score=1.0, matched=True)], messages)

    assert passage.turn == 1
    assert passage.seqs == (2, 3, 4)
    assert passage.text == (
        "[turn 1, assistant] Hi\n[turn 2, user] I rented a kayak\n[turn 2, assistant] How was it?"
    )
    assert passage.tokens == COUNTER.count_text(passage.text)


def test_passages_come_in_the_order_of_the_transcript_whatever_their_rank():
    messages = _found(*[f"message {number}" for number in range(1, 13)])

    passages = _choose([Ranked(11, 1.0, True), Ranked(2, 0.8, True)], messages)

    assert [passage.seqs for passage in passages] == [(1, 2, 3), (10, 11, 12)]


def test_adjacent_hits_make_one_passage():
    messages = _found(*["x"] * 8)

    passages = _choose([Ranked(2, 1.0, True), Ranked(5, 0.9, True)], messages)

    assert [passage.seqs for passage in passages] == [(1, 2, 3, 4, 5, 6)]


def test_passages_stop_where_the_score_falls_under_half_of_the_best():
    messages = _found(*["x"] * 20)

    passages = _choose([Ranked(2, 1.0, True), Ranked(8, 0.5, True), Ranked(14, 0.49, True)], messages)

    assert [passage.seqs for passage in passages] == [(1, 2, 3), (7, 8, 9)]


def test_with_room_to_fill_weaker_hits_come_without_neighbours():
    messages = _found(*["x"] * 20)

    passages = _choose([Ranked(2, 1.0, True), Ranked(8, 0.3, True)], messages, falloff=0.0)

    assert [passage.seqs for passage in passages] == [(1, 2, 3), (8,)]


def test_what_does_not_fit_gives_way_to_something_smaller():
    messages = _found(
        "We met at the old harbour and talked about " + "boats, " * 30, "x", "x", "x", "a kayak", "x"
    )

    passages = _choose([Ranked(1, 1.0, True), Ranked(5, 0.4, True)], messages, max_tokens=30, falloff=0.0)

    assert [passage.seqs for passage in passages] == [(2,), (5,)]


def test_messages_that_were_not_loaded_or_are_empty_are_not_shown():
    messages = _found("x", "", "x", "x")
    del messages[4]

    (passage,) = _choose([Ranked(3, 1.0, True)], messages)

    assert passage.seqs == (3,)


@given(
    st.lists(st.text(max_size=200), min_size=1, max_size=12),
    st.integers(0, 200),
    st.randoms(use_true_random=False),
)
def test_passages_never_exceed_their_tokens_and_show_no_message_twice(texts, max_tokens, numbers):
    messages = _found(*texts)
    order = list(messages)
    numbers.shuffle(order)
    ranked = [Ranked(seq, 1 - place / 20, True) for place, seq in enumerate(order)]

    passages = _choose(ranked, messages, max_tokens=max_tokens, falloff=0.0)

    assert sum(passage.tokens for passage in passages) <= max_tokens
    assert all(passage.tokens == COUNTER.count_text(passage.text) for passage in passages)
    seqs = [seq for passage in passages for seq in passage.seqs]
    assert seqs == sorted(set(seqs))


# Excerpts

FILLER = "Nothing of note happened on that particular day in the office. "


def test_a_short_text_is_shown_whole():
    assert cut_excerpt(text=" Hi there. ", terms=("x",), max_tokens=300, counter=COUNTER) == "Hi there."


def test_a_long_text_is_cut_to_the_sentences_around_the_words():
    text = FILLER * 100 + "Then we rented the red kayak in Bergen. " + FILLER * 100

    excerpt = cut_excerpt(text=text, terms=("kayak",), max_tokens=100, counter=COUNTER)

    assert "Then we rented the red kayak in Bergen." in excerpt
    assert excerpt.startswith("… Nothing")
    assert excerpt.endswith("…")
    assert 60 <= COUNTER.count_text(excerpt) <= 100


def test_words_far_apart_are_both_shown_with_a_gap():
    text = "The kayak is red. " + FILLER * 100 + "The oar is blue. " + FILLER * 100

    excerpt = cut_excerpt(text=text, terms=("kayak", "oar"), max_tokens=80, counter=COUNTER)

    assert excerpt.startswith("The kayak is red.")
    assert "The oar is blue." in excerpt
    assert " … " in excerpt


def test_a_long_text_without_the_words_is_shown_from_its_beginning():
    excerpt = cut_excerpt(
        text="First things first. " + FILLER * 100, terms=("kayak",), max_tokens=50, counter=COUNTER
    )

    assert excerpt.startswith("First things first. Nothing")


@given(st.text(min_size=1, max_size=3000), st.integers(8, 120))
def test_an_excerpt_never_exceeds_its_tokens(text, max_tokens):
    excerpt = cut_excerpt(text=text, terms=("a", "kayak"), max_tokens=max_tokens, counter=COUNTER)

    assert COUNTER.count_text(excerpt) <= max_tokens


def test_one_endless_line_is_cut_too():
    excerpt = cut_excerpt(text="x1y2" * 5000, terms=("kayak",), max_tokens=100, counter=COUNTER)

    assert 0 < COUNTER.count_text(excerpt) <= 100


@pytest.mark.parametrize(
    ("text", "asked", "marked"),
    [
        ("Two Kayaks, rented.", "kayak rental rent", "Two **Kayaks**, **rented**."),
        ("see INV-2024-001 now", "2024", "see **INV-2024-001** now"),
        ("Nothing here", "kayak", "Nothing here"),
        ("Das Café", "cafe", "Das **Café**"),
        ("我的猫在睡觉。", "猫在", "我的**猫在**睡觉。"),
    ],
)
def test_matches_are_marked(text, asked, marked):
    terms = read_search(asked).terms

    assert mark_terms(text=text, terms=terms) == marked
