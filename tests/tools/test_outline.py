"""What a long result is made of: the right kind, the paths, headings, columns and lines, and never too much of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tools.json_path import PathError, find_key, follow_path, parse_path
from tools.outline import LINE_CHARACTERS, outline_text, read_table
from tools.passages import PASSAGE_CHARACTERS, rank_texts, split_passages, split_rows
from tools.sections import SectionError, find_section

LIMIT = 1_800
NOTE = """intro

# Setup *guide*

text of setup

## 2.1 Install `it`

run this

```
# not a heading
```

## Configure

set that

# Usage

go
"""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=12), inner, max_size=6),
    max_leaves=40,
)


def test_json_is_outlined_by_paths_with_counts_and_samples():
    rows = [{"id": at, "name": f"n{at}", "tags": ["x"]} for at in range(300)]

    outlined = outline_text(text=json.dumps({"rows": rows, "two words": None}), limit=LIMIT)

    assert outlined.kind == "json"
    assert outlined.structure == (
        "$: object, 2 keys; rows, two words",
        "$.rows: list, 300 elements",
        '$["two words"]: null',
        "$.rows[*]: object, 3 keys",
        "$.rows[*].id: integer, e.g. 0",
        '$.rows[*].name: text, e.g. "n0"',
        "$.rows[*].tags: list, 1 element",
        '$.rows[*].tags[*]: text, e.g. "x"',
    )


def test_markdown_is_outlined_by_headings_with_lines():
    outlined = outline_text(text=NOTE, limit=LIMIT)

    assert outlined.kind == "markdown"
    assert outlined.structure == (
        "21 lines, 4 headings, each with its line:",
        "3: # Setup *guide*",
        "7: ## 2.1 Install `it`",
        "15: ## Configure",
        "19: # Usage",
    )


def test_a_table_is_outlined_by_columns_and_rows():
    text = "id;name\n" + "\n".join(f'{at};"a;b {at}"' for at in range(40))

    outlined = outline_text(text=text, limit=LIMIT)

    assert outlined.kind == "csv"
    assert outlined.structure == (
        "40 rows below a header of 2 columns",
        "column 1: id, e.g. 0",
        "column 2: name, e.g. a;b 0",
    )


def test_a_log_is_outlined_by_its_ends_and_lines_that_speak_of_errors():
    lines = [f"2026-03-04T10:00:{at % 60:02} INFO step {at}" for at in range(100)]
    lines[57] = "2026-03-04T10:00:57 WARN disk failed"

    outlined = outline_text(text="\n".join(lines), limit=LIMIT)

    assert outlined.kind == "log"
    assert outlined.structure[0] == "100 lines, the longest of 36 characters"
    assert outlined.structure[1:3] == (
        "1 lines that speak of an error:",
        "58: 2026-03-04T10:00:57 WARN disk failed",
    )
    assert outlined.structure[-1] == "100: 2026-03-04T10:00:39 INFO step 99"


@pytest.mark.parametrize("text", ["a, b and c\nwent, out\nlate", "one\ntwo\nthree", "a,b\n1,2,3\n4,5,6"])
def test_prose_is_no_table(text):
    assert read_table(text) is None


@given(st.text(max_size=400) | json_values.map(json.dumps), st.integers(min_value=0, max_value=LIMIT))
@example("\x00\u202e" * 50, 200)
@example('["\\ud800"]', 200)
@example("\ud800\n# a\n# b", 200)
@example("a,b\n" * 5, 90)
def test_no_outline_fails_or_is_longer_than_allowed(text, limit):
    structure = outline_text(text=text, limit=limit).structure

    assert sum(len(line) + 1 for line in structure) <= limit
    assert all(len(line) <= LINE_CHARACTERS and "\n" not in line for line in structure)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 10_000_000,
        "[" * 5_000_000,
        '{"a":' * 100_000,
        json.dumps({f"key {at} " + "k" * 500: at for at in range(5_000)}),
        "# heading\n" * 100_000,
        '"' * 200_000 + ",b\n",
        ",".join(f"column{at}" for at in range(50_000)) + "\n",
        "error " * 100_000,
    ],
    ids=["one line", "brackets", "nesting", "keys", "headings", "quotes", "columns", "errors"],
)
def test_outlines_of_huge_texts_stay_small(text):
    structure = outline_text(text=text, limit=LIMIT).structure

    assert structure
    assert sum(len(line) + 1 for line in structure) <= LIMIT


DOCUMENT = {
    "a": {"b": [{"c": 1}, {"c": 2}, {"d": 3}]},
    "it's": "quoted",
    "text": "0123456789",
    "n": {"7": "seven"},
    'say "x"': "hi",
}


@pytest.mark.parametrize(
    ("path", "paths", "values"),
    [
        ("$", ["$"], [DOCUMENT]),
        ("$.a.b[0]", ["$.a.b[0]"], [{"c": 1}]),
        ("a.b[-1].d", ["$.a.b[2].d"], [3]),
        ("$.a.b[*].c", ["$.a.b[0].c", "$.a.b[1].c"], [1, 2]),
        ("$.a.b[1:]", ["$.a.b[1]", "$.a.b[2]"], [{"c": 2}, {"d": 3}]),
        ("$.a.b[::2]", ["$.a.b[0]", "$.a.b[2]"], [{"c": 1}, {"d": 3}]),
        ("$.a.b[::-1].c", ["$.a.b[1].c", "$.a.b[0].c"], [2, 1]),
        ("""$["it's"]""", ["""$["it's"]"""], ["quoted"]),
        (r"$['it\'s']", ["""$["it's"]"""], ["quoted"]),
        ("$['a']['b'][5]", [], []),
        ("""$['say "x"']""", [r'$["say \"x\""]'], ["hi"]),
        (r"""$['say \"x\"']""", [r'$["say \"x\""]'], ["hi"]),
        ("$.text[2:5]", ["$.text[2:5]"], ["234"]),
        ("$.n[7]", ['$.n["7"]'], ["seven"]),
        ("$.a.*[0].c", ["$.a.b[0].c"], [1]),
        ("$.missing.b", [], []),
    ],
)
def test_paths_lead_to_values(path, paths, values):
    found = follow_path(value=DOCUMENT, steps=parse_path(path))

    assert [item.path for item in found] == paths
    assert [item.value for item in found] == values


@pytest.mark.parametrize(
    "path",
    [
        "$..a",
        "$.a[?(@.c>1)]",
        "$.a[",
        "$.a[0:1:0]",
        "$.a b",
        "$[" * 100,
        "$" + ".a" * 40,
        "x" * 501,
        "$['a",
        "$$",
    ],
)
def test_what_is_no_path_is_refused(path):
    with pytest.raises(PathError):
        parse_path(path)


def test_a_path_that_multiplies_is_stopped():
    value = [[0] * 400] * 400

    with pytest.raises(PathError, match="100,000"):
        follow_path(value=value, steps=parse_path("$[*][*]"))


@given(json_values)
def test_the_path_of_every_row_leads_to_it(value):
    for row in split_rows(value):
        [found] = follow_path(value=value, steps=parse_path(row.path))

        assert found.value == row.value


def test_the_outermost_key_of_a_name_is_found():
    found = find_key(value=[{"x": {"k": 1}}, {"k": 2}], accept=lambda key: key == "k")

    assert (found.path, found.value) == ("$[1].k", 2)


@pytest.mark.parametrize(
    ("section", "lines"),
    [
        ("Setup guide", (3, 18)),
        ("# setup GUIDE", (3, 18)),
        ("install it", (7, 14)),
        ("2.1", (7, 14)),
        ("configure", (15, 18)),
        ("4", (19, 21)),
        ("usa", (19, 21)),
        ("5-7", (5, 7)),
        ("lines 20-900", (20, 21)),
    ],
)
def test_a_section_is_a_heading_with_what_is_below_it_or_a_range(section, lines):
    span = find_section(text=NOTE, section=section)

    assert (span.first, span.last) == lines
    assert NOTE[span.start : span.end] == "".join(NOTE.splitlines(keepends=True)[lines[0] - 1 : lines[1]])


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("nowhere", "1 Setup *guide*; 2 2.1 Install"),
        ("9-3", "lines 1 to 21"),
        ("40-50", "lines 1 to 21"),
        ("i", "Several"),
    ],
)
def test_an_unknown_section_is_answered_with_those_there_are(section, said):
    with pytest.raises(SectionError) as refused:
        find_section(text=NOTE, section=section)

    assert said in str(refused.value)


@given(st.text(alphabet=st.sampled_from("ab \n.\u4e2d"), max_size=5_000))
@settings(max_examples=50)
def test_passages_are_the_whole_text(text):
    passages = split_passages(text)

    assert "".join(passage.text for passage in passages) == text
    assert all(passage.line == text.count("\n", 0, passage.start) + 1 for passage in passages)
    assert all(len(passage.text) <= PASSAGE_CHARACTERS for passage in passages)


def test_rare_words_rank_before_common_ones():
    texts = ["the pump and the pump"] * 20 + ["the turbine costs 48,213 euros", "other"]

    assert rank_texts(texts=texts, query="pump turbines")[0] == 20
    assert rank_texts(texts=texts, query="48213") == [20]
    assert rank_texts(texts=texts, query="zanzibar … !") == []
