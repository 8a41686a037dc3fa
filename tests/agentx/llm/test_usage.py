"""One golden usage payload per kind of provider, so that cached tokens are never counted twice."""

from __future__ import annotations

import pytest

from agentx.llm.messages import UsageReport
from agentx.llm.usage import read_usage


@pytest.mark.parametrize(
    ("payload", "report"),
    [
        pytest.param(
            {
                "prompt_tokens": 2006,
                "completion_tokens": 300,
                "total_tokens": 2306,
                "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 128},
            },
            UsageReport(2006, 1920, 300, 128),
            id="openai",
        ),
        pytest.param(
            {
                "prompt_tokens": 50,
                "completion_tokens": 7,
                "prompt_cache_hit_tokens": 32,
                "prompt_cache_miss_tokens": 18,
            },
            UsageReport(50, 32, 7, None),
            id="deepseek",
        ),
        pytest.param(
            {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57, "prompt_tokens_details": None},
            UsageReport(50, None, 7, None),
            id="vllm",
        ),
        pytest.param(
            {
                "prompt_tokens": 731,
                "completion_tokens": 12,
                "total_tokens": 743,
                "prompt_tokens_details": {"cached_tokens": 690},
            },
            UsageReport(731, 690, 12, None),
            id="llama.cpp",
        ),
        pytest.param(
            {
                "prompt_tokens": 900,
                "completion_tokens": 10,
                "total_tokens": 910,
                "prompt_tokens_details": {"cached_tokens": 768},
            },
            UsageReport(900, 768, 10, None),
            id="vllm with its prefix cache",
        ),
        pytest.param(
            {"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320, "cached_tokens": 256},
            UsageReport(300, 256, 20, None),
            id="moonshot",
        ),
        pytest.param(
            {
                "input_tokens": 21,
                "cache_creation_input_tokens": 188,
                "cache_read_input_tokens": 1_800,
                "output_tokens": 393,
            },
            UsageReport(2_009, 1_800, 393, None),
            id="anthropic: cached beside the prompt",
        ),
        pytest.param(
            {"input_tokens": 21, "output_tokens": 3},
            UsageReport(21, None, 3, None),
            id="anthropic without caching",
        ),
        pytest.param(
            {
                "prompt_tokens": 2_009,
                "completion_tokens": 393,
                "total_tokens": 2_402,
                "prompt_tokens_details": {"cached_tokens": 1_800},
                "cache_creation_input_tokens": 188,
                "cache_read_input_tokens": 1_800,
            },
            UsageReport(2_009, 1_800, 393, None),
            id="anthropic through a gateway: cached within the prompt",
        ),
        pytest.param(
            {
                "input_tokens": 2_006,
                "input_tokens_details": {"cached_tokens": 1_920},
                "output_tokens": 300,
                "output_tokens_details": {"reasoning_tokens": 128},
            },
            UsageReport(2_006, 1_920, 300, 128),
            id="openai responses",
        ),
        pytest.param(
            {
                "promptTokenCount": 5_000,
                "cachedContentTokenCount": 4_096,
                "candidatesTokenCount": 60,
                "thoughtsTokenCount": 200,
                "totalTokenCount": 5_260,
            },
            UsageReport(5_000, 4_096, 260, 200),
            id="gemini: thoughts beside the output",
        ),
        pytest.param(
            {"promptTokenCount": 5, "totalTokenCount": 5}, UsageReport(5, None, None, None), id="gemini empty"
        ),
        pytest.param(
            {"prompt_tokens": 0, "completion_tokens": 0}, UsageReport(0, None, 0, None), id="zero is a figure"
        ),
        pytest.param({}, UsageReport(None, None, None, None), id="nothing"),
        pytest.param(
            {"prompt_tokens": "50", "completion_tokens": -1, "prompt_tokens_details": [1]},
            UsageReport(None, None, None, None),
            id="nonsense",
        ),
        pytest.param(
            {"prompt_tokens": None, "prompt_tokens_details": {"cached_tokens": True}, "input_tokens": 5},
            UsageReport(None, None, None, None),
            id="no figure in the field that counts",
        ),
        pytest.param({"input_tokens": 2**31}, UsageReport(None, None, None, None), id="more than any column"),
    ],
)
def test_usage_of_each_provider_is_read_as_it_means_it(payload, report):
    assert read_usage(payload) == report
