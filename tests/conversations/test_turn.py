"""A turn from acceptance to its terminal state, with the faults a model server can have on the way."""

from __future__ import annotations

import asyncio

import pytest

from agentx.threads import in_db_thread
from conversations.context.chain import hash_message
from conversations.events import decode_event
from conversations.models import Conversation, Message, ModelCall, Run
from conversations.services.cancel import run_cancel
from tests.scripted_model import scripts

pytestmark = pytest.mark.django_db(transaction=True)


def _types(events: list[dict]) -> list[str]:
    """Event types without repeats, frames left out."""
    types = [event["type"] for event in events if "seq" in event]
    return [kind for index, kind in enumerate(types) if index == 0 or types[index - 1] != kind]


def _of(events: list[dict], kind: str) -> dict:
    return next(event["data"] for event in events if event["type"] == kind and "seq" in event)


def _text(events: list[dict], kind: str = "delta") -> str:
    return "".join(event["data"]["text"] for event in events if event["type"] == kind)


async def _stored() -> tuple[Run, list[Message]]:
    return await in_db_thread(lambda: (Run.objects.get(), list(Message.objects.order_by("seq"))))


async def test_p6_a_turn_streams_and_stores_the_same_text(runner, turns, scripted):
    scripted.script(scripts.answer("Four, as **ever**."))

    events = await turns.say("What is 2 + 2?")

    run, messages = await _stored()
    assert _types(events) == ["run_started", "context", "status", "delta", "message", "done", "close"]
    assert _text(events) == "Four, as **ever**." == messages[1].content
    assert _of(events, "message")["message"]["content"] == messages[1].content
    assert (messages[1].role, messages[1].seq, messages[1].turn, messages[1].status) == (
        "assistant",
        2,
        1,
        "complete",
    )
    assert (run.status, run.finish_reason, run.partial_text) == ("completed", "stop", "")
    assert run.final_seq == events[-1]["seq"]


async def test_p4_seqs_are_dense_and_the_end_comes_once(runner, turns, scripted):
    """RUN-03."""
    events = [event for event in await turns.say("[[scripted-n200-tps400]]") if "seq" in event]

    types = [event["type"] for event in events]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert types[0] == "run_started"
    assert [types.count(kind) for kind in ("close", "done", "error")] == [1, 1, 0]
    assert types[-1] == "close"


async def test_run_02_every_event_is_of_a_registered_class(runner, turns, scripted):
    """RUN-02."""
    scripted.script(scripts.answer("yes", reasoning="hm "))

    events = [event for event in await turns.say("?") if "seq" in event]

    import orjson

    for event in events:
        assert decode_event(orjson.dumps(event))[0] == event["seq"]


async def test_p15_usage_is_recorded_once_per_call(runner, turns, scripted):
    """RUN-11."""
    scripted.script(scripts.answer("one two three"))

    events = await turns.say("hello")

    call = await in_db_thread(ModelCall.objects.get)
    run, _ = await _stored()
    assert _of(events, "done")["usage"] == run.usage
    assert (call.prompt_tokens, call.output_tokens, call.purpose) == (
        run.usage["prompt_tokens"],
        run.usage["output_tokens"],
        "chat",
    )
    assert run.usage["usage_complete"] is True


async def test_usage_the_provider_did_not_report_is_null_not_a_guess(runner, turns, scripted):
    """LOG-05."""
    scripted.script(
        scripts.then(
            "one two three", ("chunk", {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        )
    )

    events = await turns.say("hello")

    usage = _of(events, "done")["usage"]
    assert (usage["prompt_tokens"], usage["output_tokens"], usage["usage_complete"]) == (None, None, False)


async def test_run_10_reasoning_is_shown_live_and_never_stored(runner, turns, scripted):
    """RUN-10."""
    scripted.script(scripts.answer("<think>more</think>visible", reasoning="secret thoughts "))

    events = await turns.say("hello")

    _, messages = await _stored()
    assert _text(events, "thinking") == "secret thoughts more"
    assert messages[1].content == "visible"
    assert messages[1].metadata["had_thinking"] is True
    assert "thoughts" not in str(messages[1].metadata)


async def test_the_hash_chain_covers_every_message(runner, turns, scripted):
    await turns.say("hello")

    _, messages = await _stored()
    previous = ""
    for row in messages:
        previous = hash_message(
            previous=previous,
            seq=row.seq,
            role=row.role,
            content=row.content,
            parts=row.parts,
            tool_calls=row.tool_calls,
            tool_call_id=row.tool_call_id,
        )
        assert row.chain_hash == previous
    assert (await in_db_thread(Conversation.objects.get)).head_hash == previous


async def test_run_12_the_next_turn_sees_the_earlier_ones_once_each(runner, turns, scripted):
    """RUN-12."""
    scripted.script(scripts.answer("first answer"))
    scripted.script(scripts.answer("second answer"))
    await turns.say("first question")

    await turns.say("second question")

    sent = [(m["role"], m["content"]) for m in scripted.requests[1]["messages"]]
    assert sent[1:] == [
        ("user", "first question"),
        ("assistant", "first answer"),
        ("user", "second question"),
    ]


@pytest.mark.parametrize(
    ("directive", "code", "kept"),
    [
        ("[[scripted-disconnect-n3]]", "stream_broken", scripts.word_text(3)),
        ("[[scripted-malformed-n3]]", "malformed_stream", scripts.word_text(3)),
        ("[[scripted-badutf8-n3]]", "malformed_stream", scripts.word_text(3)),
        ("[[scripted-streamerror-n3]]", "provider_failed", scripts.word_text(3)),
        ("[[scripted-stall-n3]]", "stalled", scripts.word_text(3)),
        ("[[scripted-nofinish-n3]]", "stream_broken", scripts.word_text(3)),
        ("[[scripted-keyrejected]]", "key_rejected", None),
        ("[[scripted-website]]", "not_an_endpoint", None),
        ("[[scripted-overflow-n1]]", "context_overflow", None),
    ],
)
async def test_a_failing_model_ends_the_run_honestly_and_keeps_what_came(
    runner, turns, scripted, directive, code, kept
):
    events = await turns.say(directive)

    run, messages = await _stored()
    error = _of(events, "error")
    assert (run.status, error["code"], run.error["code"]) == ("failed", code, code)
    assert error["stalled"] is (code == "stalled")
    assert error["retryable"] is True
    assert [m.content for m in messages[1:]] == ([] if kept is None else [kept])
    assert [m.status for m in messages[1:]] == ([] if kept is None else ["failed"])
    assert _types(events)[-2:] == ["error", "close"]


async def test_p21_length_is_flagged_as_truncated(runner, turns, scripted):
    """A cut answer goes on once; one that is cut again is flagged."""
    scripted.script(scripts.answer("and then", finish="length"), scripts.answer(" again", finish="length"))

    events = await turns.say("tell me")

    done = _of(events, "done")
    assert (done["finish_reason"], done["truncated"]) == ("length", True)


async def test_run_21_a_rate_limit_is_waited_out_visibly(runner, turns, scripted):
    """RUN-21."""
    scripted.script(scripts.rate_limited(times=2))
    scripted.script(scripts.answer("at last"))

    events = await turns.say("hello")

    waits = [e["data"] for e in events if e["type"] == "status" and e["data"]["phase"] == "rate_limited"]
    assert len(waits) == 2
    assert _text(events) == "at last"
    assert len(scripted.requests) == 3


async def test_run_21_a_rate_limit_beyond_the_schedule_is_an_error(runner, turns, scripted):
    """RUN-21."""
    scripted.script(scripts.rate_limited(times=3))

    events = await turns.say("hello")

    assert _of(events, "error")["code"] == "rate_limited"
    assert len(scripted.requests) == 3


async def test_a_provider_failure_before_any_output_is_retried_once(runner, turns, scripted):
    scripted.script(scripts.html(502))
    scripted.script(scripts.answer("fine now"))

    events = await turns.say("hello")

    assert _text(events) == "fine now"


async def test_a_provider_failure_after_output_is_not_retried(runner, turns, scripted):
    """RUN-22."""
    await turns.say("[[scripted-disconnect-n2]]")

    assert len(scripted.requests) == 1


async def test_run_23_a_slow_first_chunk_is_announced_until_it_comes(runner, turns, scripted):
    """RUN-23."""
    events = await turns.say("[[scripted-n3-ttft700]]")

    phases = [e["data"]["phase"] for e in events if e["type"] == "status"]
    assert phases.count("waiting") >= 1
    assert _text(events) == scripts.word_text(3)


async def test_run_24_a_slow_but_steady_model_never_stalls(runner, turns, scripted, settings):
    """RUN-24."""
    settings.MODEL_STALL_SECONDS = 0.6

    events = await turns.say("[[scripted-n5-tps3]]")  # 1.6 s in all, a third of one between tokens

    assert _text(events) == scripts.word_text(5)


async def test_p13_run_09_stop_keeps_the_partial_answer_and_says_so(runner, turns, scripted):
    """RUN-09."""
    accepted = await turns.submit("[[scripted-n1000-tps20]]")
    following = asyncio.create_task(turns.follow(accepted.run.id))
    while (await in_db_thread(lambda: Run.objects.get().partial_text)) == "":
        await asyncio.sleep(0.05)

    await in_db_thread(run_cancel, user_id=turns.user_id, run_id=accepted.run.id)
    events = await asyncio.wait_for(following, 5)

    run, messages = await _stored()
    assert (run.status, run.finish_reason) == ("cancelled", "stopped")
    assert (messages[1].status, messages[1].metadata["interrupted"]) == ("stopped", True)
    assert messages[1].content == _text(events)
    assert messages[1].content.startswith("rivers carry")
    assert _of(events, "done")["status"] == "cancelled"
    assert len(scripted.requests) == 1


async def test_stop_lands_in_the_middle_of_a_rate_limit_wait(runner, turns, scripted, settings):
    """RUN-06, RUN-21."""
    settings.RATE_LIMIT_WAIT_SCHEDULE = [600.0]
    scripted.script(scripts.rate_limited())
    accepted = await turns.submit("hello")
    following = asyncio.create_task(turns.follow(accepted.run.id))
    while not scripted.requests:
        await asyncio.sleep(0.05)

    await in_db_thread(run_cancel, user_id=turns.user_id, run_id=accepted.run.id)
    events = await asyncio.wait_for(following, 10)

    assert _types(events)[-2:] == ["done", "close"]
    assert (await _stored())[0].status == "cancelled"


async def test_ctx_18_a_question_that_cannot_fit_fails_with_figures_and_stays(
    runner, turns, scripted, settings
):
    """CTX-18."""
    settings.CONTEXT_WINDOW_TOKENS = 400  # 275 for the prompt; the system prompt takes some 50 of them

    events = await turns.say("word " * 250)

    _run, messages = await _stored()
    error = _of(events, "error")
    assert error["code"] == "does_not_fit"
    assert "275" in error["message"]
    assert error["retryable"] is False
    assert scripted.requests == []
    assert [m.content for m in messages] == ["word " * 250]


async def test_p20_a_drained_runner_interrupts_what_is_left_and_keeps_its_text(scripted, turns):
    from conversations.runner import Runner

    runner = Runner()
    working = asyncio.create_task(runner.run())
    await turns.submit("[[scripted-n1000-tps20]]")
    while (await in_db_thread(lambda: Run.objects.get().partial_text)) == "":
        await asyncio.sleep(0.05)

    runner.stop()
    await asyncio.wait_for(working, 10)

    run, messages = await _stored()
    assert run.status == "interrupted"
    assert (messages[1].status, run.error["retryable"]) == ("interrupted", True)
    assert messages[1].content.startswith("rivers carry")
