"""Tool calls in streams: the habits of servers, and what no server should send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.llm.calls import CallAssembler
from agentx.llm.messages import ToolCall


def _assemble(*chunks: list[object]) -> tuple[ToolCall, ...]:
    assembler = CallAssembler()
    for pieces in chunks:
        assembler.take(pieces)
    return assembler.end()


def _piece(index=None, call_id=None, name=None, arguments=None) -> dict[str, object]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    piece: dict[str, object] = {"function": function}
    if index is not None:
        piece["index"] = index
    if call_id is not None:
        piece["id"] = call_id
    return piece


def test_pieces_of_parallel_calls_find_their_call_by_index():
    calls = _assemble(
        [_piece(0, "a", "first", "")],
        [_piece(1, "b", "second", "")],
        [_piece(0, arguments='{"x":'), _piece(1, arguments='{"y":')],
        [_piece(1, arguments="2}"), _piece(0, arguments="1}")],
    )

    assert calls == (ToolCall("a", "first", '{"x":1}'), ToolCall("b", "second", '{"y":2}'))


def test_a_call_whole_in_one_chunk():
    assert _assemble([_piece(0, "a", "tool", '{"x": 1}')]) == (ToolCall("a", "tool", '{"x": 1}'),)


def test_without_an_index_a_new_id_begins_a_new_call():
    calls = _assemble(
        [_piece(None, "a", "tool", "{")], [_piece(None, "a", "tool", "}")], [_piece(None, "b", "tool", "{}")]
    )

    assert calls == (ToolCall("a", "tool", "{}"), ToolCall("b", "tool", "{}"))


def test_a_name_repeated_in_every_piece_is_one_name():
    assert _assemble([_piece(0, "a", "tool", "{")], [_piece(0, "a", "tool", "}")]) == (
        ToolCall("a", "tool", "{}"),
    )


def test_arguments_given_as_an_object_become_text():
    assert _assemble([_piece(0, "a", "tool", {"wort": "Größe"})]) == (
        ToolCall("a", "tool", '{"wort": "Größe"}'),
    )


@pytest.mark.parametrize("ids", [("", ""), ("same", "same"), (None, None)], ids=["empty", "equal", "missing"])
def test_ids_are_there_and_differ(ids):
    calls = _assemble([_piece(0, ids[0], "tool", "{}"), _piece(1, ids[1], "tool", "{}")])

    assert all(call.id for call in calls)
    assert len({call.id for call in calls}) == 2


def test_a_call_without_a_name_is_none():
    assert _assemble([_piece(0, "a", None, "{}")]) == ()


@given(
    st.lists(
        st.lists(
            st.recursive(
                st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=5),
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(
                        st.sampled_from(["index", "id", "function", "name", "arguments"]), inner, max_size=5
                    )
                ),
                max_leaves=12,
            ),
            max_size=3,
        ),
        max_size=4,
    )
)
def test_nothing_a_server_sends_raises(chunks):
    for call in _assemble(*chunks):
        assert call.name
