"""RUN-32: a conversation has a title from its first message on, also without a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.titles import TITLE_CHARACTERS, derive_title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("What is 2 + 2?", "What is 2 + 2?"),
        ("## Plan\n\nfirst", "Plan"),
        ("  several   spaces  ", "several spaces"),
        ("\n\nsecond line first", "second line first"),
        ("# \nbody below an empty heading", "# body below an empty heading"),
        ("word " * 40, "word word word word word word word word word word word word…"),
    ],
)
def test_the_first_line_becomes_the_title(text, title):
    assert derive_title(text) == title


@given(st.text(min_size=1).filter(str.strip))
def test_a_visible_text_always_gives_a_title_that_fits(text):
    title = derive_title(text)

    assert title.strip()
    assert len(title) <= TITLE_CHARACTERS + 1
