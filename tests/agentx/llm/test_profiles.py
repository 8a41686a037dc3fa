"""What is known about a model, and what a server says about its window."""

from __future__ import annotations

import socket

import pytest
from structlog.testing import capture_logs

from agentx.embedded.llama import MODEL_ID, WINDOW_TOKENS
from agentx.llm import profiles
from agentx.llm.facts import ModelProfile, ProfileOverride
from agentx.llm.profiles import reported_window, resolve_profile
from agentx.llm.shipped import shipped_profile
from tests.agentx.llm.asked import profile_for
from tests.scripted_model import ScriptedModel


@pytest.mark.parametrize(
    ("model", "reported", "window"),
    [
        ("smollm2-135m-instruct", None, 8192),
        ("smollm2-135m-instruct", 4096, 4096),
        ("nobody-knows-this", 16_384, 16_384),
        ("nobody-knows-this", None, 32_768),
        ("nobody-knows-this", 0, 32_768),
    ],
)
def test_the_window_is_the_servers_then_the_tables_then_a_guess(model, reported, window):
    profile = profile_for(model, reported_window=reported)

    assert (profile.name, profile.max_input_tokens) == (model, window)


def test_an_unknown_model_is_warned_of_once_per_id():
    with capture_logs() as logs:
        for model in ("first-unknown", "first-unknown", "second-unknown", "first-unknown"):
            profile_for(model)

    assert [(entry["event"], entry["model"]) for entry in logs] == [
        ("unknown_model", "first-unknown"),
        ("unknown_model", "second-unknown"),
    ]


@pytest.mark.parametrize(
    ("override", "reported", "learned", "window", "source"),
    [
        (4_096, 16_384, 8_192, 4_096, "override"),
        (65_536, 16_384, 8_192, 65_536, "override"),
        (None, 16_384, None, 16_384, "reported"),
        (None, 16_384, 32_768, 16_384, "reported"),
        (None, 16_384, 8_192, 8_192, "learned"),
        (None, None, 8_192, 8_192, "learned"),
        (None, None, None, 128_000, "shipped"),
    ],
)
def test_the_window_comes_from_the_best_source(override, reported, learned, window, source):
    profile = resolve_profile(
        model="gpt-4o",
        override=ProfileOverride(max_input_tokens=override),
        reported=reported,
        learned=learned,
    )

    assert (profile.max_input_tokens, profile.source) == (window, source)


def test_a_model_nobody_knows_is_given_the_usual_window_and_no_abilities_it_may_lack():
    assert profile_for("nobody-knows-this") == ModelProfile(
        name="nobody-knows-this",
        max_input_tokens=32_768,
        max_output_tokens=None,
        prompt_caching="none",
        tokenizer="",
        strict_roles=False,
        vision=False,
        tools=True,
        image_tokens=1_100,
        exact_counts=False,
        hosting="provider",
        source="default",
    )


def test_no_warning_where_an_operator_or_experience_knows_the_window():
    with capture_logs() as logs:
        override = ProfileOverride(max_input_tokens=4_096)
        resolve_profile(model="third-unknown", override=override, reported=None, learned=None)
        resolve_profile(model="third-unknown", override=None, reported=None, learned=8_192)
        resolve_profile(model="third-unknown", override=None, reported=8_192, learned=None)

    assert logs == []


def test_a_window_reported_by_llama_cpp_tells_what_the_server_can_do():
    profile = profile_for("nobody-knows-this", reported_window=8_192)

    assert (profile.hosting, profile.prompt_caching, profile.exact_counts) == ("local", "automatic", True)
    assert (profile.strict_roles, profile.image_tokens) == (True, 4_096)


def test_the_bundled_model_is_known_for_what_it_is():
    asked, not_asked = profile_for(MODEL_ID, reported_window=8_192), profile_for(MODEL_ID)

    assert (asked.hosting, asked.exact_counts, asked.strict_roles) == ("bundled", True, False)
    assert (not_asked.hosting, not_asked.exact_counts) == ("bundled", False)
    assert not_asked.max_input_tokens == WINDOW_TOKENS


def test_an_override_replaces_single_facts_false_and_zero_included():
    override = ProfileOverride(
        max_output_tokens=100, prompt_caching="none", vision=False, tools=False, image_tokens=0
    )

    profile = resolve_profile(model="gpt-4o", override=override, reported=None, learned=None)

    assert (profile.max_output_tokens, profile.prompt_caching, profile.image_tokens) == (100, "none", 0)
    assert (profile.vision, profile.tools, profile.strict_roles) == (False, False, False)
    assert (profile.max_input_tokens, profile.source) == (128_000, "shipped")


@pytest.mark.parametrize(
    ("asked", "window"),
    [
        ("gpt-4o-2024-11-20", 128_000),
        ("openai/gpt-4o", 128_000),
        ("openrouter/anthropic/claude-sonnet-4-5-20250929", 200_000),
        ("GPT-4o", 128_000),
        ("gpt-4o-mini-latest", 128_000),
    ],
)
def test_dates_and_vendors_around_a_model_id_do_not_hide_it(asked, window):
    profile = profile_for(asked)

    assert (profile.name, profile.max_input_tokens, profile.source) == (asked, window, "shipped")


@pytest.mark.parametrize("asked", ["gpt-4o-audio", "my-gpt-4o", "gpt-4", ""])
def test_a_name_that_only_resembles_one_is_not_known(asked):
    assert shipped_profile(asked) is None


@pytest.mark.parametrize(
    ("model", "caching"),
    [
        ("gpt-4o", "automatic"),
        ("deepseek-chat", "automatic"),
        ("gemini-2.5-pro", "automatic"),
        ("claude-haiku-4-5", "explicit"),
        ("nobody-knows-this", "none"),
    ],
)
def test_ctx_30_only_models_that_need_marks_are_explicit(model, caching):
    """CTX-30."""
    assert profile_for(model).prompt_caching == caching


async def test_a_llama_cpp_server_reports_its_window():
    with ScriptedModel(window=4096) as server:
        assert await reported_window(base_url=server.base_url, api_key="") == 4096
        assert await reported_window(base_url=f"{server.base_url}/", api_key="k") == 4096


@pytest.mark.parametrize("window", [None, 0, -1, True, "4096", 1.5, {}])
async def test_a_server_that_does_not_say_or_says_nonsense_gives_no_window(window):
    with ScriptedModel(window=window) as server:
        assert await reported_window(base_url=server.base_url, api_key="") is None


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1", "http://[::1", "no address", ""])
async def test_an_address_without_a_server_gives_no_window(address):
    assert await reported_window(base_url=address, api_key="") is None


async def test_a_server_that_does_not_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(profiles, "_ASK_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        assert await reported_window(base_url=f"http://127.0.0.1:{port}/v1", api_key="") is None
