"""Segments by rule: what stands for turns that left the view, and the identifiers it must keep."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from agentx.llm.tokens import HeuristicTokenizer, TokenCounter
from conversations.context.identifiers import find_identifiers
from conversations.context.segments import (
    covered_through,
    hash_sources,
    merge_segments,
    render_segment_text,
    write_leaves,
)
from conversations.context.types import TranscriptMessage

COUNTER = TokenCounter(HeuristicTokenizer())


def transcript(
    turns: int, *, answer: str = "Done with step {n}. Details follow. The file is out/{n}.csv."
) -> list:
    made = []
    for n in range(1, turns + 1):
        for role, text in (("user", f"Please do step {n}."), ("assistant", answer.format(n=n))):
            seq = len(made) + 1
            made.append(
                TranscriptMessage(
                    id=seq + 100, seq=seq, turn=n, role=role, content=text,
                    tokens=COUNTER.count_text(text) + 4, chain_hash=f"h{seq}",
                )
            )  # fmt: skip
    return made


def leaves(messages, **changes):
    fields = {"after_seq": 0, "through_seq": messages[-1].seq, "leaf_tokens": 200, "text_tokens": 120}
    return write_leaves(messages=messages, counter=COUNTER, **(fields | changes))


def test_leaves_tile_their_range_in_whole_turns():
    made = leaves(transcript(30))

    assert made[0].from_seq == 1
    assert made[-1].through_seq == 60
    assert all(left.through_seq + 1 == right.from_seq for left, right in itertools.pairwise(made))
    assert all(segment.from_seq % 2 == 1 for segment in made)
    assert sum(segment.messages for segment in made) == 60
    assert covered_through(made) == 60


def test_a_leaf_is_smaller_than_its_source_and_within_its_cap():
    for segment in leaves(transcript(40), leaf_tokens=400):
        assert segment.tokens <= 120
        assert segment.tokens <= segment.source_tokens * 0.8
        assert segment.tokens == COUNTER.count_text(render_segment_text(segment.text, segment.identifiers))


def test_a_leaf_has_first_and_last_sentences_and_says_who_spoke():
    answer = "Done with step {n}. " + "Details follow here. " * 20 + "The file is out/{n}.csv."
    (segment,) = leaves(transcript(1, answer=answer), text_tokens=200)

    assert segment.text.startswith("user: Please do step 1.")
    assert "assistant: Done with step 1. … The file is out/1.csv." in segment.text


def test_no_identifier_is_invented_and_those_that_are_not_in_the_text_are_listed():
    long = (
        "Intro. "
        + "filler words here " * 50
        + "Order AB-1234 for 1.250,00 € due 2026-03-01, see https://x.org/a. "
        + "more words " * 50
        + "End."
    )
    (segment,) = leaves(transcript(1, answer=long), text_tokens=200)

    shown = render_segment_text(segment.text, segment.identifiers)
    assert {"AB-1234", "2026-03-01", "https://x.org/a"} <= set(segment.identifiers)
    assert all(value in long for value in segment.identifiers)
    assert "1.250,00 €" in shown


def test_the_source_hash_changes_with_an_edit_and_not_with_what_follows():
    """INV-9: known failure 33."""
    messages = transcript(10)
    edited = [replace(m, chain_hash="other") if m.seq == 4 else m for m in messages]

    assert leaves(messages)[0].source_hash == leaves(transcript(12)[:20])[0].source_hash
    assert hash_sources(messages) != hash_sources(edited)
    assert hash_sources(messages) != hash_sources(messages[:-1])


def test_four_of_one_level_merge_so_that_the_list_grows_with_the_logarithm():
    made = leaves(transcript(400))
    assert len(made) > 60

    active, parents = merge_segments(segments=made, max_tokens=900, counter=COUNTER)

    assert sum(segment.tokens for segment in active) <= 900
    assert len(active) < 12
    assert covered_through(active) == 800
    assert sum(segment.messages for segment in active) == 800
    assert {segment.level for segment in parents} >= {1, 2}
    assert all(parent.tokens <= max(s.tokens for s in made) for parent in parents)


def test_inv_7_merging_in_steps_or_at_once_gives_the_same_list():
    """INV-7: the same segments whatever the order in which cuts came."""
    made = leaves(transcript(100))

    at_once, _ = merge_segments(segments=made, max_tokens=400, counter=COUNTER)
    again, parents = merge_segments(segments=at_once, max_tokens=400, counter=COUNTER)

    assert again == at_once
    assert parents == ()


def test_a_gap_ends_what_is_covered():
    made = leaves(transcript(30))

    assert covered_through(made[1:]) == 0
    assert covered_through((made[0], *made[2:])) == made[0].through_seq
    assert covered_through(()) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://example.org/a/b?c=1.", ("https://example.org/a/b?c=1",)),
        ("mail ana.b+c@mail.example.com now", ("ana.b+c@mail.example.com",)),
        ("Rechnung INV-2024-0017 über 1.234,56 €", ("INV-2024-0017", "1.234,56 €")),
        ("pay $1,200.50 or €9", ("$1,200.50", "€9")),
        ("on 2026-03-01 and 1.3.2026", ("2026-03-01", "1.3.2026")),
        ("upgrade v2 to 18.4.1-rc1", ("v2", "18.4.1-rc1")),
        ("edit src/app/main.py and notes.md", ("src/app/main.py", "notes.md")),
        ("id 3f2504e0-4f89-11d3-9a0c-0305e82c3301", ("3f2504e0-4f89-11d3-9a0c-0305e82c3301",)),
        ("room 12 costs 1500", ("12", "1500")),
        ("just words, nothing else", ()),
    ],
)
def test_identifiers_are_found_by_their_shape(text, expected):
    assert find_identifiers(text) == expected


def test_inv_1_segments_on_both_sides_of_a_gap_never_merge():
    """INV-1: a parent over a gap would claim messages that none of its children stands for."""
    made = leaves(transcript(40))
    torn = (*made[:3], *made[4:7])

    active, parents = merge_segments(segments=torn, max_tokens=1, counter=COUNTER)

    gone = range(made[3].from_seq, made[3].through_seq + 1)
    assert not any(segment.from_seq <= seq <= segment.through_seq for segment in active for seq in gone)
    assert covered_through(active) == made[2].through_seq
    assert len(parents) >= 1
