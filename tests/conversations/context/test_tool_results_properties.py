"""What holds for any tool result at any limit, tried on generated ones."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conversations.context.tool_results import ResultDoesNotFit, compact_tool_result
from tests.conversations.context.tool_result_reading import ROW_FIELDS, collect_ids, collect_notes, send

KEYS = st.sampled_from(
    [
        *ROW_FIELDS,
        "id",
        "ids",
        "doc_id",
        "path",
        "start_date",
        "total",
        "filters",
        "source",
        "text",
        "markdown",
        "rows_compaction",
        "text_compaction",
        "start_line",
        "meta",
        "omitted",
        "omitted_refs",
        "a",
    ]
) | st.text(max_size=4)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.integers(0, 400).map(lambda n: "lorem # ipsum\n" * n)
    | st.text(alphabet=st.characters(codec=None), max_size=5)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
FIELDS = (
    VALUES
    | st.builds(lambda value, times: [value] * times, VALUES, st.integers(1, 90))
    | st.builds(
        lambda row, count: [{"id": number, **row} for number in range(count)],
        st.dictionaries(KEYS, VALUES, max_size=3),
        st.integers(1, 90),
    )
)
STRUCTURES = st.dictionaries(KEYS, FIELDS, min_size=1, max_size=4) | st.lists(FIELDS, min_size=1, max_size=4)
FUZZ = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@FUZZ
@given(STRUCTURES, st.integers(0, 12_000))
def test_tur_17_any_json_at_any_limit_parses_or_is_refused(value, limit):
    """TUR-17."""
    before = repr(value)

    try:
        sent = send(value, limit=limit)
    except ResultDoesNotFit:
        return

    for rows, note in collect_notes(sent):
        if set(note) >= {"returned", "retained", "omitted", "notice"}:
            assert note["retained"] == len(rows)
            assert note["retained"] + note["omitted"] == note["returned"]
    assert compact_tool_result(content="", artifact=value, limit=limit).encode()
    assert repr(value) == before


TREES = st.recursive(
    st.fixed_dictionaries({"memo": st.integers(0, 60).map(lambda n: "memo " * n)}),
    lambda inner: (
        st.fixed_dictionaries(
            {"text": st.integers(0, 200).map(lambda n: "text " * n), "rows": st.lists(inner, max_size=12)}
        )
        | st.lists(inner, min_size=1, max_size=12)
    ),
    max_leaves=60,
)


def _number(tree: Any, counter: list[int], stride: int) -> Any:
    """The tree with an id of its own in every object."""
    if isinstance(tree, list):
        return [_number(item, counter, stride) for item in tree]
    if not isinstance(tree, dict):
        return tree
    counter[0] += stride
    own = counter[0] if counter[0] % 3 else f"d-{counter[0]}"
    return {"id": own, **{key: _number(item, counter, stride) for key, item in tree.items()}}


@FUZZ
@given(TREES, st.integers(1, 3), st.integers(0, 6_000), st.integers(0, 6_000))
def test_tur_15_compacting_twice_accounts_for_every_id(tree, stride, first, second):
    """TUR-11, TUR-13 and TUR-15."""
    value = _number(tree, [0], stride)
    sent = value

    for limit in (first, second):
        try:
            sent = send(sent, limit=limit)
        except ResultDoesNotFit:
            continue
        assert sorted(collect_ids(sent), key=str) == sorted(collect_ids(value), key=str)


@FUZZ
@given(TREES, st.lists(st.integers(0, 9_000), min_size=2, max_size=4))
def test_tur_17_a_larger_limit_never_shows_less(tree, limits):
    """TUR-17."""

    def shown(limit: int) -> tuple[int, int]:
        try:
            sent = send({"rows": value}, limit=limit)
        except ResultDoesNotFit:
            return -1, -1
        texts = re.findall(r'"(?:text|memo)":"(.*?)"', json.dumps(sent))
        return len(sent["rows"]), sum(len(text) for text in texts)

    value = _number(tree, [0], 2)
    value = value if isinstance(value, list) else [value]

    seen = [shown(limit) for limit in sorted(limits)]

    assert seen == sorted(seen)
    assert [chars for _, chars in seen] == sorted(chars for _, chars in seen)


@FUZZ
@given(st.text(alphabet=st.characters(codec=None), min_size=1), st.integers(1, 400), st.integers(0, 2_000))
def test_tur_18_any_text_at_any_limit_fits_or_is_refused(text, times, limit):
    """TUR-18."""
    try:
        sent = compact_tool_result(content=text * times, limit=limit)
    except ResultDoesNotFit:
        assert limit < 120
    else:
        assert len(sent) <= limit
        assert sent.encode() is not None
