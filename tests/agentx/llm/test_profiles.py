"""What is known about a model, and what a server says about its window."""

from __future__ import annotations

import socket

import pytest
from structlog.testing import capture_logs

from agentx.llm import profiles
from agentx.llm.profiles import profile_for, reported_window
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
