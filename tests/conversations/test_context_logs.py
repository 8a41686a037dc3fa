"""CTX-35: what operators read about a turn tells sizes and never words."""

from __future__ import annotations

import asyncio

import pytest

from agentx import metrics
from agentx.threads import in_db_thread
from conversations.models import ModelCall
from tests.scripted_model import scripts

pytestmark = pytest.mark.django_db(transaction=True)

_SECRET = "xylophonic"


def _lines(caplog, event: str) -> list[dict]:
    """The structured lines of one name."""
    said = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    return [line for line in said if line.get("event") == event]


async def _turns_end(caplog, count: int) -> None:
    """Wait for the last line of each turn, which comes after its end has been shown."""
    async with asyncio.timeout(20):
        while len(_lines(caplog, "turn_finished")) < count:
            await asyncio.sleep(0.02)


async def test_ctx_35_every_call_has_one_line_of_each_kind_and_none_has_a_word(
    runner, turns, scripted, settings, caplog
):
    """CTX-35."""
    settings.CONTEXT_WINDOW_TOKENS = 2_048
    for _ in range(12):
        scripted.script(scripts.answer(f"{_SECRET} " * 40))
        await turns.say(f"{_SECRET} " * 40)
    await _turns_end(caplog, 12)

    for event in ("context_budget", "prompt_budget", "model_call"):
        assert len(_lines(caplog, event)) == len(scripted.requests) == 12
    epochs = _lines(caplog, "context_epoch")
    assert [line["epoch"] for line in epochs] == list(range(1, len(epochs) + 1))
    assert len(epochs) >= 2
    assert _SECRET not in caplog.text


async def test_ctx_35_the_two_lines_hold_the_figures_of_the_request(runner, turns, scripted, caplog):
    """CTX-35."""
    await turns.say("hello")

    history, prompt = _lines(caplog, "context_budget")[0], _lines(caplog, "prompt_budget")[0]
    assert {
        "history_asked",
        "history_granted",
        "messages_loaded",
        "messages_sent",
        "dropped_turns",
        "summarized",
    } <= set(history)
    assert (history["messages_sent"], history["summarized"]) == (0, False)
    assert {"budget", "window", "system", "tools", "used", "response"} <= set(prompt)
    assert prompt["window"] == 32_768


async def test_a_refused_request_has_its_own_line_and_a_call_each(runner, turns, scripted, caplog):
    for _ in range(4):
        await turns.say("word " * 800)
    await _turns_end(caplog, 4)
    caplog.clear()
    scripted.script(scripts.overflow(window=4_000, prompt_tokens=5_000))

    await turns.say(_SECRET)
    await _turns_end(caplog, 1)

    retries = _lines(caplog, "context_overflow_retry")
    assert [(line["window"], line["named"]) for line in retries] == [(32_768, 4_000)]
    assert len(_lines(caplog, "context_budget")) == len(_lines(caplog, "model_call")) == 2
    assert _SECRET not in caplog.text


@pytest.fixture
def counted_model(scripted, settings) -> str:
    """Asked for nowhere else, so that its figures are those of one test."""
    settings.LLM_MODEL = "scripted-n7"
    return settings.LLM_MODEL


async def test_a_turn_is_counted_as_its_calls_are_stored(counted_model, runner, turns, caplog):
    metrics._figures.cache_clear()

    for _ in range(2):
        await turns.say("hello")
    await _turns_end(caplog, 2)

    text = metrics.metrics_render().decode()
    calls = await in_db_thread(lambda: list(ModelCall.objects.all()))
    labels = f'model="{counted_model}",purpose="chat"'
    for kind in ("prompt", "cached", "output"):
        tokens = float(sum(getattr(call, f"{kind}_tokens") for call in calls))
        assert f'agentx_tokens_total{{kind="{kind}",{labels}}} {tokens}\n' in text
    assert sum(call.output_tokens for call in calls) > 0
    assert 'agentx_context_epochs_total{reason="start"} ' in text
