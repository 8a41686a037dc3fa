"""The scripted model does what its scripts say, also when they come from another process."""

from __future__ import annotations

import json
from dataclasses import replace

import httpx2
import pytest

from tests.scripted_model import Script, ScriptedModel, scripts
from tests.scripted_model.naming import BEHAVIOURS, Asked


@pytest.fixture(scope="module")
def running():
    with ScriptedModel() as server:
        yield server


@pytest.fixture
def server(running):
    running.reset()
    return running


def ask(server, text="hi", *, model="scripted", stream=False) -> httpx2.Response:
    body = {"model": model, "messages": [{"role": "user", "content": text}], "stream": stream}
    return httpx2.post(f"{server.base_url}/chat/completions", json=body, timeout=5, trust_env=False)


def said(response: httpx2.Response) -> str:
    return response.json()["choices"][0]["message"]["content"]


def test_scripts_are_said_in_order_then_the_models_name_decides(server):
    server.script(scripts.answer("one"), scripts.answer("two"))

    assert [said(ask(server, model="scripted-n2")) for _ in range(3)] == ["one", "two", "rivers carry"]


def test_a_script_waits_for_the_question_it_matches(server):
    server.script(replace(scripts.answer("for b"), match="b?"), replace(scripts.answer("for a"), match="a?"))

    assert [said(ask(server, text)) for text in ("a?", "b?")] == ["for a", "for b"]


@pytest.mark.parametrize(("times", "answers"), [(2, ["x", "x", "rivers"]), (0, ["x", "x", "x"])])
def test_a_script_serves_as_often_as_it_says(server, times, answers):
    server.script(replace(scripts.answer("x"), times=times))

    assert [said(ask(server, model="scripted-n1")) for _ in answers] == answers


def test_a_script_comes_from_another_process_as_json(server):
    script = {"steps": [["delta", {"content": "from afar"}], ["finish", "stop"]]}
    pushed = httpx2.post(f"{server.root_url}/__script", json=script, trust_env=False)

    assert pushed.status_code == 200
    assert said(ask(server)) == "from afar"
    stats = httpx2.get(f"{server.root_url}/__stats", trust_env=False).json()
    assert stats == {"live": 0, "peak": 1, "disconnects": 0, "requests": server.requests}


def test_what_is_no_script_is_refused(server):
    refused = httpx2.post(f"{server.root_url}/__script", json={"stepps": []}, trust_env=False)

    assert refused.status_code == 400


def test_a_question_can_name_the_behaviour(server):
    assert said(ask(server, "please [[scripted-n3]]")) == "rivers carry small"


def test_streamed_tool_calls_add_up_to_the_scripted_arguments(server):
    calls = [("look", '{"for": "a long thing"}'), ("broken", '{"for": ')]
    server.script(scripts.tool_calls(*calls))

    events = [line.removeprefix("data: ") for line in ask(server, stream=True).text.splitlines() if line]

    assert events[-1] == "[DONE]"
    found: dict[int, list[str]] = {}
    for event in events[:-1]:
        for part in json.loads(event)["choices"][0]["delta"].get("tool_calls", ()):
            call = found.setdefault(part["index"], [part["function"].get("name", ""), ""])
            call[1] += part["function"]["arguments"]
    assert [tuple(found[index]) for index in sorted(found)] == calls


def test_every_event_is_a_write_of_its_own(server):
    """Answers of many tokens must not reach the client as one piece, or nothing could be said about streaming."""
    server.script(replace(scripts.answer("a b c"), tokens_per_second=20))
    body = {"model": "scripted", "messages": [], "stream": True}

    with httpx2.stream("POST", f"{server.base_url}/chat/completions", json=body, trust_env=False) as response:
        pieces = [piece for piece in response.iter_raw() if b"content" in piece]

    assert len(pieces) == 3


def test_usage_comes_only_when_asked_for(server):
    assert '"usage"' not in ask(server, stream=True).text


def test_a_rate_limit_by_name_ends_after_its_count_for_each_question(server):
    tries = [ask(server, text, model="scripted-ratelimit-n1").status_code for text in ("a", "b", "a", "b")]

    assert tries == [429, 429, 200, 200]


def test_overflow_by_name_depends_on_the_prompt(server):
    assert ask(server, "x" * 500, model="scripted-overflow-n100").status_code == 400
    assert ask(server, "x", model="scripted-overflow-n100").status_code == 200


def test_models_lists_every_behaviour(server):
    listed = httpx2.get(f"{server.base_url}/models", trust_env=False).json()["data"]

    assert len(listed) == len(BEHAVIOURS)
    assert {"scripted", "scripted-stall"} <= {card["id"] for card in listed}


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_every_behaviour_makes_a_script(name):
    asked = Asked(body={"messages": [{"role": "user", "content": "hi"}]}, count=None, earlier=0)

    assert isinstance(BEHAVIOURS[name](asked), Script)
