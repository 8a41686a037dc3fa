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
            {"prompt_tokens": 0, "completion_tokens": 0}, UsageReport(0, None, 0, None), id="zero is a figure"
        ),
        pytest.param({}, UsageReport(None, None, None, None), id="nothing"),
        pytest.param(
            {"prompt_tokens": "50", "completion_tokens": -1, "prompt_tokens_details": [1]},
            UsageReport(None, None, None, None),
            id="nonsense",
        ),
    ],
)
def test_usage_of_each_provider_is_read_as_it_means_it(payload, report):
    assert read_usage(payload) == report
