"""Results as they can be stored, and as the column that stores them gives them back."""

from __future__ import annotations

import json

import pytest
from django.db import connection

from tools.cleaning import clean_json, settle_json

TRICKY = {
    "stored_output": {"structure": [1], "id": "x", "read_with": "", "kind": "json"},
    "result": 1,
    "é": 2,
    "zz": 3,
    "ab": 4,
    "numbers": [1.0, 1.5, -0.0, 1e16, 1.5e300, 1e-7, 123456789012345678901234567890, 0.1, 1e22, 2.5e-10],
    "": None,
    "deep": [{"b": 1, "a": [True, False, {"long key": "x", "k": "\u2028"}]}],
}


@pytest.mark.django_db
def test_a_settled_value_is_written_as_the_database_gives_it_back():
    """CTX-22: the request that first shows a result and every later one have the same bytes for it."""
    settled = settle_json(TRICKY)

    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb::text", [json.dumps(settled)])
        [stored] = cursor.fetchone()

    assert json.dumps(json.loads(stored)) == json.dumps(settled)
    assert {key: settled[key] for key in settled if key != "numbers"} == {
        key: TRICKY[key] for key in TRICKY if key != "numbers"
    }


def test_settling_again_changes_nothing():
    once = settle_json(TRICKY)

    assert json.dumps(settle_json(once)) == json.dumps(once)


def test_results_are_cleaned_and_settled_at_once():
    assert json.dumps(clean_json({"b": "nul\x00", "a": "\ud800"})) == json.dumps(
        {"a": "\ufffd", "b": "nul\ufffd"}
    )
