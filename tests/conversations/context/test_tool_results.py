"""Compacted tool results: valid JSON at every limit, every gap counted, every row still named."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from conversations.context.tool_results import ResultDoesNotFit, compact_tool_result
from tests.conversations.context.tool_result_reading import (
    ROW_FIELDS,
    collect_ids,
    read_strictly,
    send,
    send_least,
    spell_out,
)


def _rows(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"txn-{n:04d}", "memo": f"payment number {n} " * 4, "amount": n + 0.25, **more}
        for n in range(count)
    ]


def test_tur_10_a_small_artifact_is_sent_verbatim_though_the_display_text_is_longer():
    """TUR-10."""
    sent = compact_tool_result(
        content="A table for the eyes. " * 900, artifact={"b": 1, "a": [1.5, None, "é"]}
    )

    assert sent == '{"b":1,"a":[1.5,null,"é"]}'


def test_tur_10_without_an_artifact_content_that_is_json_is_compacted_as_json():
    """TUR-10."""
    sent = compact_tool_result(content=json.dumps({"rows": _rows(300)}, indent=2), limit=2_000)

    assert read_strictly(sent)["rows_compaction"]["returned"] == 300


@pytest.mark.parametrize("content", ["plain words", '{"a":   1}', "[1,", "", '{"a": NaN}'])
def test_tur_10_content_inside_the_limit_stays_as_it_is(content):
    """TUR-10."""
    assert compact_tool_result(content=content, limit=20) == content


def test_tur_10_an_empty_artifact_does_not_hide_the_words_beside_it():
    assert compact_tool_result(content="Nothing was found.", artifact=[]) == "Nothing was found."
    assert compact_tool_result(content="", artifact=[]) == "[]"
    assert compact_tool_result(content="", artifact={"rows": []}, model_context={}) == '{"rows":[]}'


@pytest.mark.parametrize("field", ROW_FIELDS)
def test_tur_11_leading_rows_stay_and_the_note_counts_and_names_the_others(field):
    """TUR-11."""
    rows = _rows(30)

    sent = send({field: rows}, limit=1_200)

    kept, note = sent[field], sent[f"{field}_compaction"]
    assert 0 < len(kept) < 30
    assert kept == rows[: len(kept)]
    assert (note["returned"], note["retained"], note["omitted"]) == (30, len(kept), 30 - len(kept))
    assert set(note) == {"returned", "retained", "omitted", "omitted_refs", "notice"}
    assert collect_ids(sent) == [row["id"] for row in rows]
    assert list(sent) == [field, f"{field}_compaction"]


def test_tur_11_a_top_level_list_is_wrapped_to_carry_its_note():
    """TUR-11."""
    rows = _rows(30)

    sent = send(rows, limit=1_200)

    assert list(sent) == ["data", "data_compaction"]
    assert sent["data"] == rows[: sent["data_compaction"]["retained"]]


def test_tur_11_top_level_figures_are_passed_on_and_none_is_made_up():
    """TUR-11."""
    payload = {
        "total": 30,
        "count": 30,
        "sum": 12.5,
        "from_date": "2024-01-01",
        "filters": {"account": "a", "text": "t" * 300},
        "source_refs": ["s" * 200],
        "rows": _rows(30),
    }

    sent = send(payload, limit=1_700)

    assert {key: sent[key] for key in payload if key != "rows"} == {
        k: v for k, v in payload.items() if k != "rows"
    }
    assert set(sent) - set(payload) == {"rows_compaction"}
    assert sent["rows_compaction"]["omitted"] > 0


def test_tur_11_rows_that_are_scalars_are_counted():
    """TUR-11."""
    sent = send({"categories": [f"category {n}" for n in range(500)]}, limit=1_000)

    note = sent["categories_compaction"]
    assert note["retained"] + note["omitted"] == note["returned"] == 500
    assert sent["categories"] == [f"category {n}" for n in range(note["retained"])]
    assert "omitted_refs" not in note


def test_tur_11_collections_side_by_side_each_name_their_own_rows():
    """TUR-11."""
    payload = {
        "accounts": [{"id": f"a{n * 2}", "memo": "m" * 90} for n in range(30)],
        "payees": [{"id": f"p{n * 2}", "memo": "m" * 90} for n in range(30)],
    }

    sent = send(payload, limit=2_000)

    assert collect_ids({"accounts": sent["accounts"], "note": sent["accounts_compaction"]}) == [
        f"a{n * 2}" for n in range(30)
    ]
    assert collect_ids({"payees": sent["payees"], "note": sent["payees_compaction"]}) == [
        f"p{n * 2}" for n in range(30)
    ]


def test_tur_11_a_list_shorter_than_its_note_would_be_is_never_cut():
    sent = send({"accounts": ["checking", "savings"], "rows": _rows(40)}, limit=900)

    assert sent["accounts"] == ["checking", "savings"]
    assert "accounts_compaction" not in sent


def test_objects_under_many_keys_are_rows_named_by_their_keys():
    people = {f"user{n}": {"name": f"Person {n}", "about": "b" * 200} for n in range(60)}

    sent = send({"people": people}, limit=3_000)

    note = sent["people_compaction"]
    assert note["retained"] + note["omitted"] == 60
    assert list(sent["people"]) == [f"user{n}" for n in range(note["retained"])]
    omitted = [member for unit in note["omitted_refs"]["key"] for member in spell_out(unit)]
    assert omitted == [f"user{n}" for n in range(note["retained"], 60)]
    assert list(send(people, limit=3_000)) == ["data", "data_compaction"]


@pytest.mark.parametrize("field", ["markdown", "snippet", "content", "text", "memo", "description", "body"])
def test_tur_12_long_text_becomes_a_prefix_and_a_count_of_what_is_missing(field):
    """TUR-12."""
    text = "".join(chr(0x4E00 + n % 500) + "😀a" for n in range(2_000))

    sent = send({"id": 7, field: text}, limit=1_000)

    assert text.startswith(sent[field])
    assert len(sent[field]) > 800
    assert len(sent[field]) + sent[f"{field}_compaction"]["omitted_chars"] == len(text) == 6_000


def test_tur_12_a_text_in_a_list_is_wrapped_to_carry_its_count():
    """TUR-12."""
    sent = send({"results": ["w" * 9_000, "short"]}, limit=3_500)

    first, second = sent["results"]
    assert len(first["text"]) + first["text_compaction"]["omitted_chars"] == 9_000
    assert second == "short"


def test_tur_13_identities_at_any_depth_survive_the_smallest_form():
    """TUR-13."""
    row = {
        "metadata": {"deep": [{"document_id": "d-1", "start_date": "2024-05-06", "why": "w" * 400}]},
        "lines": [{"ids": [11, 12], "file_path": "a/b.md", "subtotal": 9.75, "note": "n" * 400}],
        "accountId": "acc-9",
        "url": "https://example.org/x",
        "source": {"name": "ledger", "month": "2024-05"},
        "filters": {"payee": "p"},
    }

    sent = send_least({"results": [row]})

    assert sent["results"] == []
    assert sent["results_compaction"]["omitted_refs"] == {
        "metadata.deep.document_id": ["d-1"],
        "metadata.deep.start_date": ["2024-05-06"],
        "lines.ids": [11, 12],
        "lines.file_path": ["a/b.md"],
        "lines.subtotal": [9.75],
        "accountId": ["acc-9"],
        "url": ["https://example.org/x"],
        "source": [{"name": "ledger", "month": "2024-05"}],
        "filters": [{"payee": "p"}],
    }


def test_tur_13_frontmatter_filters_and_source_refs_pass_untouched():
    """TUR-13."""
    payload = {
        "frontmatter": {"title": "t" * 300, "tags": [f"tag number {n}" for n in range(30)]},
        "filters": {"text": "f" * 300},
        "source_refs": [{"text": "s" * 300}],
        "markdown": "m" * 20_000,
    }

    sent = send(payload, limit=2_500)

    assert {key: sent[key] for key in list(payload)[:3]} == {key: payload[key] for key in list(payload)[:3]}
    assert len(sent["markdown"]) < 20_000


def test_tur_13_sources_that_are_the_material_itself_are_cut_like_rows():
    """TUR-13: a reference is passed on, a page of text under the same name would burst any limit."""
    sources = [
        {"url": f"https://example.org/{n}", "title": "t" * 30, "content": "c" * 3_000} for n in range(10)
    ]

    once = send({"sources": sources}, limit=6_000)
    twice = send(once, limit=1_500)

    for sent in (once, twice):
        named = [source["url"] for source in sent["sources"]]
        note = sent.get("sources_compaction", {"omitted_refs": {"url": []}})
        named += [member for unit in note["omitted_refs"]["url"] for member in spell_out(unit)]
        assert named == [source["url"] for source in sources]
    assert twice["sources_compaction"]["returned"] == 10


def test_tur_13_consecutive_identities_are_written_as_runs_and_lose_none():
    """TUR-13."""
    rows = [{"id": 9_000 - n, "ref": f"INV-{n:05d}", "memo": "m" * 40} for n in range(5_000)]
    del rows[4_000]

    sent = send({"rows": rows}, limit=1_500)

    refs = sent["rows_compaction"]["omitted_refs"]
    assert refs["id"][-1] == {"first": 4_999, "last": 4_001, "count": 999}
    assert refs["ref"][-1] == {"first": "INV-04001", "last": "INV-04999", "count": 999}
    assert collect_ids(sent) == [row["id"] for row in rows]
    named = [row["ref"] for row in sent["rows"]] + [m for unit in refs["ref"] for m in spell_out(unit)]
    assert named == [row["ref"] for row in rows]


@pytest.mark.parametrize(
    "values",
    [
        [f"{n:02d}" for n in range(100)] + ["100", "101"],
        [str(n) for n in range(120, -1, -1)],
        [f"{n:03d}" for n in range(120, -1, -1)],
        list(range(30, -31, -1)),
        [*range(20), 3.5, True, False, "7", *range(20, 60)],
        ["1-500", "a..b", *(f"2024-01-{day:02d}" for day in range(1, 32)), "line\n1"],
        [{"first": 1, "last": 3}, {"first": 1, "last": 9, "count": 4}, {"name": "x"}],
    ],
)
def test_tur_13_runs_spell_out_to_exactly_the_values_they_stand_for(values):
    """TUR-13."""
    rows = [{"id": value, "memo": "m" * 300} for value in values]

    once = send_least({"rows": rows})
    again = send(once, limit=len(json.dumps(once)))

    assert [(type(i), i) for i in collect_ids(once)] == [(type(value), value) for value in values]
    assert again == once


def test_tur_14_cut_markdown_keeps_an_index_of_forty_headings_with_absolute_lines():
    """TUR-14."""
    text = "\n".join(f"## Part {n}\n" + "words " * 60 for n in range(50))

    sent = send({"markdown": text, "start_line": 1_001}, limit=6_000)

    note = sent["markdown_compaction"]
    assert note["headings"] == [f"{1_001 + 2 * n}: ## Part {n}" for n in range(40)]
    assert note["further_headings"] == 10
    assert len(sent["markdown"]) + note["omitted_chars"] == len(text)


def test_tur_14_only_headings_are_indexed():
    """TUR-14."""
    lines = [
        "# One",
        "```python",
        "# a comment",
        "```",
        "#hashtag",
        "~~~",
        "## quoted",
        "~~~",
        "  ### Two ###",
        "#",
    ]
    text = "\n".join(lines) + "\n" + "words " * 3_000

    as_file = send({"path": "notes/a.md", "content": text}, limit=2_000)
    as_code = send({"path": "notes/a.py", "content": text}, limit=2_000)

    assert as_file["content_compaction"]["headings"] == ["1: # One", "9: ### Two ###", "10: #"]
    assert "headings" not in as_code["content_compaction"]


def test_tur_14_where_room_is_short_headings_are_counted_instead_of_shown():
    """TUR-14."""
    text = "\n".join(f"# A heading with some words, number {n}" for n in range(100))

    sent = send({"markdown": text}, limit=200)

    note = sent["markdown_compaction"]
    assert len(note["headings"]) + note["further_headings"] == 100


def test_tur_15_two_passes_still_account_for_all_thirty_rows():
    """TUR-15."""
    rows = _rows(30)
    first = send({"transactions": rows}, limit=2_000)

    second = send(first, limit=900)

    note = second["transactions_compaction"]
    assert len(second["transactions"]) < len(first["transactions"])
    assert (note["returned"], note["retained"] + note["omitted"]) == (30, 30)
    assert collect_ids(second) == [row["id"] for row in rows]
    assert set(second) == {"transactions", "transactions_compaction"}


def test_tur_15_text_cut_twice_counts_from_the_original_and_keeps_its_index():
    """TUR-15."""
    text = "# Top\n" + "words " * 2_000 + "\n# Bottom"
    first = send({"markdown": text}, limit=4_000)

    second = send(first, limit=1_000)

    note = second["markdown_compaction"]
    assert len(second["markdown"]) + note["omitted_chars"] == len(text)
    assert note["headings"] == ["1: # Top", "3: # Bottom"]


def test_tur_15_a_nested_note_gives_its_names_up_to_the_row_that_swallows_it():
    """TUR-15."""
    documents = [
        {"id": d, "rows": [{"id": d * 1_000 + n, "memo": "m" * 60} for n in range(40)]} for d in range(1, 9)
    ]
    first = send({"documents": documents}, limit=5_000)

    second = send_least(first)

    assert second["documents"] == []
    assert set(second["documents_compaction"]["omitted_refs"]) == {"id", "rows.id"}
    assert sorted(collect_ids(second)) == sorted(collect_ids(documents))


def test_tur_15_runs_of_an_earlier_pass_are_joined_only_where_they_go_on():
    """TUR-15."""

    def merge(id_before: int, run: dict[str, Any]) -> list[Any]:
        rows = [{"id": id_before - 1, "memo": "m" * 300}, {"id": id_before, "memo": "m" * 300}]
        note = {
            "returned": 2 + run["count"],
            "retained": 2,
            "omitted": run["count"],
            "omitted_refs": {"id": [run]},
        }
        return send_least({"rows": rows, "rows_compaction": note})["rows_compaction"]["omitted_refs"]["id"]

    assert merge(9, {"first": 10, "last": 90, "count": 81}) == [{"first": 8, "last": 90, "count": 83}]
    assert merge(9, {"first": 8, "last": 1, "count": 8}) == [8, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert merge(9, {"first": 10, "last": 1, "count": 10}) == [8, 9, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert merge(9, {"first": 60, "last": 10, "count": 51}) == [8, 9, {"first": 60, "last": 10, "count": 51}]


def test_tur_15_what_fits_already_is_not_changed():
    """TUR-15."""
    once = compact_tool_result(content="", artifact={"rows": _rows(200)}, limit=3_000)

    assert compact_tool_result(content=once, limit=3_000) == once
    assert compact_tool_result(content="", artifact=json.loads(once), limit=3_000) == once


def test_a_field_that_only_looks_like_a_note_is_kept():
    payload = {"rows": _rows(30), "rows_compaction": {"omitted": "ignore all rows", "retained": 1}}

    sent = send(payload, limit=1_500)

    assert sent["rows_compaction"] == payload["rows_compaction"]
    assert sent["rows_compaction_"]["returned"] == 30
    second = send(sent, limit=900)
    assert second["rows_compaction_"]["returned"] == 30
    assert second["rows_compaction"] == payload["rows_compaction"]


def test_tur_16_a_focused_view_is_sent_and_the_whole_artifact_stays():
    """TUR-16."""
    note = {"path": "notes/long.md", "markdown": "\n".join(f"line {n}" for n in range(1_001))}
    whole = copy.deepcopy(note)
    focus = {"path": "notes/long.md", "start_line": 500, "end_line": 500, "markdown": "line 499"}

    sent = compact_tool_result(content="opened", artifact=note, model_context=focus, limit=2_500)

    assert read_strictly(sent) == focus
    assert note == whole


def test_tur_16_a_focused_view_may_be_text():
    """TUR-16."""
    assert compact_tool_result(content="all", artifact={"a": 1}, model_context="line 7") == "line 7"


@pytest.mark.parametrize("limit", [0, 1, 50, 137, 300, 555, 1_000, 2_048, 4_000, 7_919, 11_999, 12_000])
def test_tur_17_every_limit_gives_json_or_a_refusal(limit):
    """TUR-17."""
    payload = {"total": 90, "results": _rows(90, description="é" * 300), "summary": "s" * 5_000}

    try:
        sent = send(payload, limit=limit)
    except ResultDoesNotFit:
        assert limit <= 555
    else:
        assert len(collect_ids(sent)) == 90


def test_tur_17_the_room_is_used():
    """TUR-17: small rows are limited by the room alone and not by the size that buys them."""
    sent = compact_tool_result(content="", artifact=[{"n": n} for n in range(100_000)], limit=12_000)

    assert len(sent) > 11_980
    assert len(read_strictly(sent)["data"]) > 1_000


def test_tur_18_prose_becomes_head_and_tail_around_a_marker():
    """TUR-18."""
    text = "".join(f"word{n} " for n in range(5_000))

    sent = compact_tool_result(content=text, limit=1_000)

    head, count, tail = re.fullmatch(
        r"(.*)\n\[… ([0-9,]+) characters left out; the whole result can be fetched again …\]\n(.*)",
        sent,
        re.DOTALL,
    ).groups()
    assert len(sent) <= 1_000
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) > 2 * len(tail) > 300
    assert len(head) + len(tail) + int(count.replace(",", "")) == len(text)


def test_tur_18_the_marker_has_room_at_a_hundred_characters():
    """TUR-18."""
    sent = compact_tool_result(content="prose without end " * 60_000, limit=100)

    assert "can be fetched again" in sent
    assert len(sent) <= 100


def test_tur_18_an_excerpt_of_an_excerpt_counts_what_both_left_out():
    """TUR-18 and TUR-15."""
    text = "abcdefghij" * 3_000

    for limits in [(9_000, 2_000), (9_000, 8_999), (5_000, 400, 120)]:
        sent = text
        for limit in limits:
            sent = compact_tool_result(content=sent, limit=limit)
        count = int(re.search(r"\[… ([0-9,]+) characters", sent).group(1).replace(",", ""))
        marker = re.search(r"\n\[… .*? …\]\n", sent).group()
        assert len(sent) - len(marker) + count == len(text)
        assert sent.count("characters left out") == 1


def test_tur_18_text_that_only_begins_like_json_is_text():
    """TUR-18."""
    sent = compact_tool_result(content='{"a": [1, 2' + ", 3" * 5_000, limit=500)

    assert sent.startswith('{"a": [1, 2, 3')
    assert "can be fetched again" in sent


def test_tur_19_metadata_that_alone_exceeds_the_limit_is_refused():
    """TUR-19."""
    payload = {"source_ref": "s" * 2_000, "rows": _rows(5)}

    with pytest.raises(ResultDoesNotFit, match=r"needs at least 2,249 characters, but only 400 ") as refusal:
        compact_tool_result(content="", artifact=payload, limit=400)

    assert isinstance(refusal.value, ValueError)
    assert send(payload, limit=refusal.value.needs)["source_ref"] == "s" * 2_000
    with pytest.raises(ResultDoesNotFit):
        compact_tool_result(content="", artifact=payload, limit=refusal.value.needs - 1)


def test_tur_19_a_marker_that_does_not_fit_is_refused():
    """TUR-19."""
    with pytest.raises(ResultDoesNotFit):
        compact_tool_result(content="words " * 100, limit=20)


def test_tur_20_identities_outlive_every_shared_excerpt_size():
    """TUR-20: while one size for all results shrinks, no result loses the names in it."""
    results = [{"id": f"call-{n}", "rows": _rows(50)} for n in range(8)]

    for limit in (12_000, 3_000, 800, 400):
        for result in results:
            sent = send(result, limit=limit)
            assert sent["id"] == result["id"]
            assert collect_ids(sent) == [result["id"], *(row["id"] for row in result["rows"])]


def test_ctx_28_no_argument_is_changed():
    """CTX-28 and INV-2."""
    artifact = {"rows": _rows(200, lines=[{"id": 1, "text": "t" * 200}] * 3), "rows_compaction": None}
    focus = {"results": _rows(100), "text": "t" * 9_000}
    before = copy.deepcopy((artifact, focus))

    compact_tool_result(content="c", artifact=artifact, limit=4_000)
    compact_tool_result(content="c", artifact=artifact, model_context=focus, limit=4_000)

    assert (artifact, focus) == before


def test_the_same_arguments_give_the_same_characters():
    payload = {"rows": _rows(300), "text": "t" * 20_000}

    assert len({compact_tool_result(content="", artifact=payload, limit=5_000) for _ in range(3)}) == 1
