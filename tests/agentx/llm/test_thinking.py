"""Reasoning within think tags and the answer come apart, however the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.llm.messages import ContentDelta, ReasoningDelta
from agentx.llm.thinking import ThinkSplitter

PARTS = st.sampled_from(
    ["<think>", "</think>", "<", "</", "think>", "<thin", "a", " ", "\n", "<b>", "é", "<<think>"]
)


def split(pieces) -> tuple[str, str]:
    """(answer, reasoning) of a text that comes in these pieces."""
    splitter = ThinkSplitter()
    items = [item for piece in pieces for item in splitter.feed(piece)]
    items.extend(splitter.finish())
    return (
        "".join(item.text for item in items if isinstance(item, ContentDelta)),
        "".join(item.text for item in items if isinstance(item, ReasoningDelta)),
    )


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("plain", "plain", ""),
        ("<think>hm</think>yes", "yes", "hm"),
        ("<think>hm</think>\n\n  yes", "yes", "hm"),
        ("a <think>b</think> c <think>d</think> e", "a c e", "bd"),
        ("yes <think>and then", "yes ", "and then"),
        ("<think></think>yes", "yes", ""),
        ("<think>\n</think>\n", "", "\n"),
        ("<think>a <think> b</think>c", "c", "a <think> b"),
        ("1 < 2 </ <thin> <thinking> <Think>", "1 < 2 </ <thin> <thinking> <Think>", ""),
        ("<<think>a</think>b", "<b", "a"),
        ("ends with <thin", "ends with <thin", ""),
        ("<think>ends with </thi", "", "ends with </thi"),
        ("", "", ""),
    ],
)
def test_run_10_text_is_split_at_the_tags_and_only_there(text, answer, reasoning):
    """RUN-10."""
    assert split([text]) == (answer, reasoning)


@given(st.lists(PARTS, max_size=12), st.data())
def test_any_way_to_cut_a_text_gives_the_same(parts, data):
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert split(pieces) == split([text])
    assert split(list(text)) == split([text])


def test_text_that_cannot_become_a_tag_is_given_at_once():
    splitter = ThinkSplitter()

    assert list(splitter.feed("a < b <")) == [ContentDelta("a < b ")]
    assert list(splitter.feed("th")) == []
    assert list(splitter.feed("ree")) == [ContentDelta("<three")]
