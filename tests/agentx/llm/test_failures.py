"""The meaning of a provider's refusal, where its words could mislead."""

from __future__ import annotations

import httpx2
import openai
import pytest

from agentx.errors import ContextOverflow, ModelError, ProviderFailed, RateLimited, RequestRefused
from agentx.llm.failures import read_failure


def refusal(status: int, body: object) -> openai.APIStatusError:
    response = httpx2.Response(status, request=httpx2.Request("POST", "http://127.0.0.1/v1"))
    return openai.APIStatusError(str(body), response=response, body=body)


@pytest.mark.parametrize(
    ("sentence", "window", "prompt"),
    [
        (
            "This model's maximum context length is 4,096 tokens. However, you requested 5,000 tokens (4,000 for the prompt).",
            4096,
            5000,
        ),
        ("the request exceeds the available context size (8192 tokens)", 8192, None),
        ("prompt is too long: 212345 tokens > 200000 maximum", 200_000, 212_345),
        (
            "request (9001 tokens) exceeds the available context size (8192 tokens), try increasing it",
            8192,
            9001,
        ),
        ("gpt-4-0613 has a context window of 8192", 8192, None),
        ("your context length is used up", None, None),
    ],
)
def test_the_figures_of_an_overflow_are_read_from_its_sentence(sentence, window, prompt):
    error = read_failure(refusal(400, {"message": sentence, "code": 400}), output_started=False)

    assert type(error) is ContextOverflow
    assert error.details == {"window": window, "prompt_tokens": prompt}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, {"message": "Too many tokens per minute for this context window"}, RateLimited),
        (500, {"message": "request exceeds the context size"}, ContextOverflow),
        (500, "<html>", ProviderFailed),
        (400, {"message": "no", "code": None}, RequestRefused),
        (400, {"error": {"message": "x", "code": "context_length_exceeded"}}, ContextOverflow),
        (418, None, RequestRefused),
    ],
)
def test_the_status_goes_before_the_words(status, body, kind):
    error = read_failure(refusal(status, body), output_started=False)

    assert type(error) is kind


def test_a_code_that_could_be_a_secret_is_not_shown():
    error = read_failure(refusal(400, {"message": "no", "code": "sk-Abc123"}), output_started=False)

    assert str(error) == "The model provider refused the request (HTTP 400)"


def test_whatever_else_is_raised_becomes_a_model_error_without_its_text():
    error = read_failure(RuntimeError("secret"), output_started=True)

    assert type(error) is ModelError
    assert str(error) == "The model provider failed"
    assert error.output_started
