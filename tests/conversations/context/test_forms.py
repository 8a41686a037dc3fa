"""Exchanges, forms and the current turn: what of a message is sent, and that nothing stored is touched."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agentx.llm.messages import ImagePart, TextPart, ToolCall
from agentx.llm.tokens import HeuristicTokenizer, TokenCounter
from conversations.context.current import fit_current
from conversations.context.exchanges import find_broken_pair, keep_whole_exchanges
from conversations.context.forms import (
    cap_text,
    clip_arguments,
    shape_first_sent,
    shape_messages,
    shape_settled,
)
from conversations.context.stored import as_chat_message
from conversations.context.types import TranscriptMessage

COUNTER = TokenCounter(HeuristicTokenizer())


def message(seq: int, role: str, content: str, *, turn: int = 1, **fields) -> TranscriptMessage:
    made = TranscriptMessage(id=seq, seq=seq, turn=turn, role=role, content=content, tokens=0, **fields)
    return replace(made, tokens=COUNTER.count_message(as_chat_message(made)))


def calling(seq: int, *ids: str, content: str = "", arguments: str = "{}") -> TranscriptMessage:
    calls = tuple(ToolCall(id=call_id, name="look_up", arguments=arguments) for call_id in ids)
    return message(seq, "assistant", content, tool_calls=calls)


def result(seq: int, call_id: str, content: str = "found", **fields) -> TranscriptMessage:
    return message(seq, "tool", content, tool_call_id=call_id, **fields)


def test_ctx_21_only_whole_exchanges_are_kept():
    """CTX-21: a cancelled turn with one of two results leaves neither the call nor the result."""
    history = [
        message(1, "user", "look"),
        calling(2, "a", "b"),
        result(3, "a"),
        message(4, "assistant", "I was stopped."),
    ]

    assert [m.seq for m in keep_whole_exchanges(history)] == [1, 4]


def test_parallel_results_stand_behind_their_call_in_its_order():
    history = [
        message(1, "user", "look"),
        calling(2, "a", "b", "c"),
        result(3, "c"),
        result(4, "a"),
        result(5, "b"),
    ]

    kept = keep_whole_exchanges(history)

    assert [m.tool_call_id for m in kept[2:]] == ["a", "b", "c"]
    assert find_broken_pair(kept) is None


def test_second_results_orphans_and_blank_messages_are_left_out():
    history = [
        message(1, "user", "look"),
        result(2, "nobody"),
        calling(3, "a"),
        result(4, "a", "first"),
        result(5, "a", "again"),
        message(6, "assistant", "  \n"),
    ]

    assert [(m.seq, m.content) for m in keep_whole_exchanges(history)] == [(1, "look"), (3, ""), (4, "first")]


def test_ids_that_a_server_uses_again_are_made_unique_and_stay_so():
    first = [message(1, "user", "one"), calling(2, "call_0"), result(3, "call_0")]
    second = [
        replace(m, turn=2)
        for m in (message(4, "user", "two"), calling(5, "call_0"), result(6, "call_0", "other"))
    ]

    kept = keep_whole_exchanges([*first, *second])

    assert [call.id for m in kept for call in m.tool_calls] == ["call_0", "call_0-5-0"]
    assert [m.tool_call_id for m in kept if m.role == "tool"] == ["call_0", "call_0-5-0"]


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ([calling(1, "a")], "call 'a' has no result"),
        ([result(1, "a")], "message 1 answers 'a'"),
        ([calling(1, "a"), message(2, "user", "x")], "message 2 comes before the result of call 'a'"),
        ([calling(1, "a"), result(2, "a"), calling(3, "a"), result(4, "a")], "call id 'a' is used twice"),
    ],
)
def test_cmp_13_the_validator_names_what_is_broken(history, said):
    """CMP-13."""
    assert said in (find_broken_pair(history) or "")


def test_ctx_19_a_long_old_message_keeps_both_ends_around_a_marker():
    """CTX-19: three quarters from its head, one from its tail."""
    text = "first words " + "x" * 50_000 + " last words"

    short = cap_text(text, 4_000)

    assert len(short) == 4_000 or len(short) < 4_000
    assert short.startswith("first words ")
    assert short.endswith(" last words")
    assert "characters left out" in short
    assert cap_text("short", 4_000) == "short"


def test_ctx_20_parts_of_an_old_message_share_one_cap_and_media_become_a_note():
    """CTX-20: the same message in its own turn is untouched."""
    parts = (
        *(TextPart(f"part {n} " + "y" * 10_000) for n in range(5)),
        ImagePart("data:image/png;base64,AA", "image/png"),
    )
    stored = message(1, "user", "see these", parts=parts)

    settled, fresh = shape_settled(stored, counter=COUNTER), shape_first_sent(stored, counter=COUNTER)

    assert sum(len(part.text) for part in settled.value.parts) + len(settled.value.content) < 5_000
    assert settled.value.parts[-2].text == "[image, image/png: sent with this message, left out here]"
    assert settled.form == "shortened"
    assert fresh.value.parts == parts
    assert fresh.form == "verbatim"


def test_tur_21_large_old_arguments_become_previews_that_are_still_json():
    """TUR-21."""
    call = ToolCall(id="a", name="write", arguments=json.dumps({"path": "/notes/a.md", "text": "z" * 9_000}))

    clipped = json.loads(clip_arguments(call).arguments)

    assert clipped["path"] == "/notes/a.md"
    assert clipped["text"] == "z" * 200 + "… [9,000 characters, clipped]"
    assert (
        json.loads(clip_arguments(replace(call, arguments="{broken " * 900)).arguments)["characters"] == 7_200
    )
    assert clip_arguments(replace(call, arguments="{}")).arguments == "{}"


def test_an_old_result_is_compacted_and_a_fresh_one_keeps_the_form_its_turn_was_sent_in():
    rows = {"rows": [{"id": f"r{n}", "note": "n" * 80} for n in range(90)], "total": 90}
    stored = result(3, "a", json.dumps(rows), artifact=rows)

    settled = shape_settled(stored, counter=COUNTER)
    fresh = shape_first_sent(replace(stored, excerpt=2_000), counter=COUNTER)

    assert len(settled.value.content) <= 4_000
    assert json.loads(settled.value.content)["total"] == 90
    assert len(fresh.value.content) <= 2_000
    assert shape_first_sent(stored, counter=COUNTER).value.content == json.dumps(
        rows, ensure_ascii=False, separators=(",", ":")
    )


def test_ctx_23_a_heavy_current_turn_shares_one_excerpt_size():
    """CTX-23, TUR-20: every call keeps its id, its arguments and a result; eight calls, seventeen messages."""
    turn = [message(1, "user", "compare them")]
    for n in range(8):
        turn += [
            calling(2 * n + 2, f"c{n}", arguments=json.dumps({"n": n})),
            result(2 * n + 3, f"c{n}", "words " * 4_000),
        ]

    fitted = fit_current(messages=turn, room=3_000, counter=COUNTER)

    assert fitted is not None
    assert len(fitted.shaped) == 17
    assert fitted.tokens <= 3_000
    assert [c.id for s in fitted.shaped for c in getattr(s.value, "tool_calls", ())] == [
        f"c{n}" for n in range(8)
    ]
    assert fitted.excerpt is not None
    assert 0 < fitted.excerpt < 12_000
    assert fitted.shaped[0].value.content == "compare them"


@pytest.mark.parametrize("room", [1_000, 50_000], ids=["heavy turn", "long prose alone"])
def test_prose_beside_a_call_keeps_the_form_its_turn_was_sent_in(room):
    """INV-5: what stood in the question's turn is history of the next one, byte for byte."""
    said = calling(2, "a", content="thinking aloud " * 1_000)
    turn = [message(1, "user", "look"), said, result(3, "a", "words " * 4_000)]

    fitted = fit_current(messages=turn, room=room, counter=COUNTER)
    assert fitted is not None
    stored = [replace(row, excerpt=fitted.excerpt) for row in turn]

    later = shape_messages(messages=stored, settled_seq=0, counter=COUNTER)
    settled = shape_messages(messages=stored, settled_seq=3, counter=COUNTER)
    assert [item.value for item in later] == [item.value for item in fitted.shaped]
    assert len(fitted.shaped[1].value.content) <= 12_000
    assert len(settled[1].value.content) <= min(4_000, len(later[1].value.content))


def test_ids_of_the_current_turn_differ_from_those_in_the_history_and_stay_so():
    """INV-3: some servers number their calls anew in every answer."""
    history = [message(1, "user", "one"), calling(2, "call_0"), result(3, "call_0")]
    turn = [
        replace(m, turn=2)
        for m in (message(4, "user", "two"), calling(5, "call_0"), result(6, "call_0", "other"))
    ]

    fitted = fit_current(messages=turn, room=9_999, counter=COUNTER, used_ids={"call_0"})
    later = keep_whole_exchanges([*history, *turn])

    assert fitted is not None
    assert fitted.shaped[1].value.tool_calls[0].id == "call_0-5-0"
    assert [item.message.tool_calls for item in fitted.shaped] == [row.tool_calls for row in later[3:]]


def test_ctx_18_a_question_alone_is_never_cut():
    """CTX-18."""
    assert fit_current(messages=[message(1, "user", "word " * 1_000)], room=500, counter=COUNTER) is None


def test_known_failure_4_twenty_results_that_fit_alone_fit_together():
    turn = [message(1, "user", "all of them"), calling(2, *(f"c{n}" for n in range(20)))]
    turn += [result(3 + n, f"c{n}", "data " * 2_400) for n in range(20)]

    fitted = fit_current(messages=turn, room=5_000, counter=COUNTER)

    assert fitted is not None
    assert fitted.tokens <= 5_000
    assert len(fitted.shaped) == 22


def test_a_result_that_was_too_large_to_be_sent_does_not_fail_later_turns():
    rows = {"rows": [{"id": f"{n * 7919:032x}"} for n in range(2_000)]}
    stored = result(3, "a", json.dumps(rows), artifact=rows)

    (shaped,) = shape_messages(messages=[stored], settled_seq=0, counter=COUNTER)

    assert shaped.form == "shortened"
    assert "too large to be shown in short" in shaped.value.content
    assert (
        fit_current(messages=[message(1, "user", "q"), calling(2, "a"), stored], room=9_999, counter=COUNTER)
        is None
    )
