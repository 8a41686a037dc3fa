"""Static embeddings: near for the same subject, harmless for odd texts, never from the network, never needed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from agentx.llm.embeddings import LONGEST_TEXT, default_embedder


def _cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.fixture
def embedder():
    found = default_embedder()
    assert found is not None
    return found


def test_texts_about_the_same_lie_closer_than_texts_about_something_else(embedder):
    cat, kitten, invoice = embedder.embed(["The cat sleeps.", "A kitten naps.", "The invoice is overdue."])

    assert _cosine(cat, kitten) > _cosine(cat, invoice) + 0.2


def test_vectors_have_the_promised_dimensions_and_length_one(embedder):
    vectors = embedder.embed(["one", "Größe und Gewicht", "猫が寝ている", "INV-2024-001"])

    assert [len(vector) for vector in vectors] == [embedder.dimensions] * 4
    assert [round(_cosine(vector, vector), 4) for vector in vectors] == [1.0] * 4


def test_a_text_without_words_gives_zeros(embedder):
    assert embedder.embed(["", "  \n"]) == [[0.0] * 256] * 2


def test_no_texts_give_no_vectors(embedder):
    assert embedder.embed([]) == []


def test_only_the_beginning_of_a_long_text_counts(embedder):
    text = "kayak " * LONGEST_TEXT

    assert embedder.embed([text]) == embedder.embed([text[:LONGEST_TEXT]])


def test_vectors_are_those_of_the_library_itself(embedder):
    texts = ["The cat sleeps.", "What did we decide about the invoices of 2024?"]
    code = (
        "import sys, json, pathlib, wordllama;"
        "model = wordllama.WordLlama.load(cache_dir=pathlib.Path(wordllama.__file__).parent, disable_download=True);"
        "print(json.dumps(model.embed(json.loads(sys.argv[1]), norm=True).tolist()))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(texts)], capture_output=True, text=True, check=True
    )

    for ours, theirs in zip(embedder.embed(texts), json.loads(done.stdout), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)


def test_loading_needs_no_network():
    code = (
        "import sys; from agentx.llm.embeddings import default_embedder;"
        "default_embedder().embed(['x']);"
        "print(sorted({'requests', 'wordllama', 'httpx2', 'urllib3'} & set(sys.modules)))"
    )
    no_egress = Path(__file__).resolve().parents[2] / "no_egress"

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=no_egress.parents[1],
        env={"PYTHONPATH": f"{no_egress}:{no_egress.parents[1]}", "PATH": ""},
    )

    assert done.stdout.strip() == "[]", done.stderr


def test_without_the_package_there_is_no_embedder_and_it_is_said_once(monkeypatch):

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    default_embedder.cache_clear()
    try:
        with structlog.testing.capture_logs() as logs:
            assert default_embedder() is None
            assert default_embedder() is None
    finally:
        default_embedder.cache_clear()

    assert [entry["event"] for entry in logs] == ["embedder_missing"]
