"""Server-sent events, however the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.errors import StreamBroken
from agentx.llm import sse
from agentx.llm.sse import EventDecoder


def _decode(*pieces: bytes) -> list[bytes]:
    decoder = EventDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: one\n\ndata: two\n\n", [b"one", b"two"]),
        (b"data:one\n\n", [b"one"]),
        (b"data:  two spaces\n\n", [b" two spaces"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a"]),
        (b"data: first\ndata: second\n\n", [b"first\nsecond"]),
        (b": a comment\n\ndata: a\n\n", [b"a"]),
        (b"event: x\nid: 3\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data\n\n", [b""]),
        (b"database: x\n\n", []),
        (b"data: not closed\n", []),
        (b"\n\n\n", []),
    ],
)
def test_what_is_an_event(stream, events):
    assert _decode(stream) == events


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20), max_size=6
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.lists(st.integers(1, 9), max_size=60),
)
def test_cutting_the_bytes_anywhere_changes_nothing(texts, ending, cuts):
    stream = "".join(f": beat{ending}data: {text}{ending}{ending}" for text in texts).encode()
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(stream[at : at + cut])
        at += cut
    pieces.append(stream[at:])

    assert _decode(*pieces) == [text.encode() for text in texts]


def test_an_event_without_an_end_is_a_broken_stream(monkeypatch):
    monkeypatch.setattr(sse, "MOST_BYTES", 100)

    with pytest.raises(StreamBroken):
        _decode(b"data: " + b"x" * 101)
    with pytest.raises(StreamBroken):
        _decode(*[b"data: " + b"x" * 30 + b"\n"] * 4)
