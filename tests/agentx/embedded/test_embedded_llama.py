"""The bundled model speaks the interface that the product relies on."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import psutil
import pytest

from agentx.embedded.llama import MODEL_ID, EmbeddedLlama

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLlama]:
    with EmbeddedLlama(data_dir=tmp_path_factory.mktemp("llama") / "model") as model:
        yield model


def _root(model: EmbeddedLlama) -> str:
    return model.url.removesuffix("/v1")


def test_an_answer_streams_and_ends_with_its_usage(model: EmbeddedLlama) -> None:
    body = {
        "model": MODEL_ID,
        "messages": [{"role": "user", "content": "Write a long story about a lighthouse."}],
        "temperature": 0,
        "max_tokens": 8,
        "stream": True,
        "stream_options": {"include_usage": True},
    }

    with httpx.stream("POST", f"{model.url}/chat/completions", json=body, timeout=60) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]

    assert lines[-1] == "[DONE]"
    usage = json.loads(lines[-2])["usage"]
    assert usage["completion_tokens"] == 8
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    deltas = [json.loads(line)["choices"] for line in lines[:-2]]
    assert sum(bool(choices and choices[0]["delta"].get("content")) for choices in deltas) > 3


def test_each_slot_has_the_whole_window(model: EmbeddedLlama) -> None:
    facts = httpx.get(f"{_root(model)}/props").json()

    assert facts["total_slots"] == 2
    assert facts["default_generation_settings"]["n_ctx"] == 8192
    assert [entry["id"] for entry in httpx.get(f"{model.url}/models").json()["data"]] == [MODEL_ID]


def test_tokens_are_counted_exactly(model: EmbeddedLlama) -> None:
    template = httpx.post(
        f"{_root(model)}/apply-template", json={"messages": [{"role": "user", "content": "hello world"}]}
    ).json()["prompt"]

    assert httpx.post(f"{_root(model)}/tokenize", json={"content": "hello world"}).json() == {
        "tokens": [28120, 905]
    }
    assert template.endswith("<|im_start|>user\nhello world<|im_end|>\n<|im_start|>assistant\n")


def test_too_long_a_prompt_is_refused_with_its_size_and_the_window(model: EmbeddedLlama) -> None:
    answer = httpx.post(
        f"{model.url}/chat/completions",
        json={"messages": [{"role": "user", "content": "word " * 9000}], "max_tokens": 1},
        timeout=60,
    )

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["n_ctx"]) == ("exceed_context_size_error", 8192)
    assert error["n_prompt_tokens"] > 9000


def test_the_server_process_loads_no_django(model: EmbeddedLlama) -> None:
    mapped = {region.path for region in psutil.Process(model.pid).memory_maps()}

    assert any("xllamacpp" in path for path in mapped)
    assert not any("psycopg" in path for path in mapped)


def test_no_web_page_of_this_machines_browser_may_use_the_model(model: EmbeddedLlama) -> None:
    answer = httpx.get(f"{model.url}/models", headers={"Origin": "http://evil.example"})

    assert answer.headers["access-control-allow-origin"] == _root(model)
