"""What every implementation of the model seam makes of a failure: what came is kept, and what is wrong has its own type."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from agentx.errors import (
    ContextOverflow,
    KeyRejected,
    MalformedStream,
    NotAnEndpoint,
    ProviderFailed,
    ProviderUnreachable,
    RateLimited,
    RequestRefused,
    StreamBroken,
)
from tests.agentx.llm.conftest import KEY
from tests.agentx.llm.streamed import collect, fail, text_of
from tests.scripted_model import Script, scripts


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (scripts.disconnect("a b c "), StreamBroken),
        (scripts.disconnect("a b c ", how="reset"), StreamBroken),
        (scripts.then("a b c "), StreamBroken),
        (scripts.then("a b c ", ("raw", "data: [DONE]\n\n")), StreamBroken),
        (scripts.malformed("a b c "), MalformedStream),
        (scripts.bad_utf8("a b c "), MalformedStream),
        (scripts.then("a b c ", ("raw", "data: 17\n\n")), MalformedStream),
        (scripts.then("a b c ", ("raw", 'data: {"choices": 17}\n\n')), MalformedStream),
        (scripts.then("a b c ", ("raw", 'data: {"choices": [17]}\n\n')), MalformedStream),
        (scripts.then("a b c ", ("raw", 'data: {"object": "ping"}\n\n')), MalformedStream),
        (scripts.stream_error("a b c "), ProviderFailed),
        (scripts.stream_error("a b c ", code=429), RateLimited),
        (scripts.stream_error("a b c ", code="invalid_api_key"), KeyRejected),
        (scripts.then("a b c ", ("error", "out of memory"), ("finish", "stop")), ProviderFailed),
        (scripts.then("a b c ", ("error", ["out", "of", "memory"]), ("finish", "stop")), ProviderFailed),
        (
            scripts.then("a b c ", ("chunk", {"error": {"message": "gone"}}), ("finish", "stop")),
            ProviderFailed,
        ),
        (
            scripts.then("a b c ", *scripts.overflow(window=10, prompt_tokens=20, dialect="stream").steps),
            ContextOverflow,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_a_failure_in_the_middle_keeps_what_came_and_says_so(model, scripted, script, kind):
    scripted.script(script)

    items, error = await fail(model)

    assert type(error) is kind
    assert text_of(items) == "a b c "
    assert error.output_started


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (scripts.disconnect(""), ProviderUnreachable),
        (scripts.disconnect("", how="reset"), ProviderUnreachable),
        (scripts.then(""), ProviderFailed),
        (scripts.then("", ("raw", "data: [DONE]\n\n")), ProviderFailed),
        (scripts.stream_error(""), ProviderFailed),
        (scripts.stream_error("", code="rate_limit_exceeded"), RateLimited),
        (scripts.then("", ("error", "out of memory"), ("finish", "stop")), ProviderFailed),
        (scripts.html(500), ProviderFailed),
        (scripts.html(503), ProviderFailed),
        (scripts.rate_limited(), RateLimited),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_failure_before_any_output_may_be_tried_again(model, scripted, script, kind):
    scripted.script(script)

    items, error = await fail(model)

    assert type(error) is kind
    assert items == []
    assert error.retryable
    assert not error.output_started
    assert len(scripted.requests) == 1  # and nobody but the turn tries again


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (scripts.malformed(""), MalformedStream),
        (scripts.key_echoed(401), KeyRejected),
        (scripts.key_echoed(403), KeyRejected),
        (scripts.html(200), NotAnEndpoint),
        (scripts.html(404), NotAnEndpoint),
        (Script(status=302, body="", headers={"Location": "http://127.0.0.1:9/"}), NotAnEndpoint),
        (scripts.html(400), RequestRefused),
        (scripts.html(422), RequestRefused),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_failure_that_another_try_would_repeat_says_what_it_is(model, scripted, script, kind):
    scripted.script(script)

    items, error = await fail(model)

    assert type(error) is kind
    assert items == []
    assert not error.output_started
    assert len(scripted.requests) == 1


async def test_a_model_the_server_does_not_have_is_an_address_or_name_to_check(connect):
    _, error = await fail(connect(model="no-such-model"))

    assert str(error) == "LLM_BASE_URL answers 404: the address or the model name is wrong"


async def test_p18_a_key_echoed_by_the_provider_is_nowhere_in_the_error(model, scripted):
    scripted.script(scripts.key_echoed(401), scripts.stream_error("", message=f"bad key {KEY}"))

    for _ in range(2):
        _, error = await fail(model)

        assert KEY not in f"{error!r} {error} {error.details} {vars(error)}"
        assert error.__suppress_context__


async def test_a_refusal_names_the_providers_code_but_not_its_text(model, scripted):
    body = '{"error": {"message": "secret prompt", "code": "unsupported_value"}}'
    scripted.script(Script(status=400, body=body, headers={"Content-Type": "application/json"}))

    _, error = await fail(model)

    assert str(error) == "The model provider refused the request (HTTP 400, unsupported_value)"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), (None, None), ("soon", None), ("-3", None), ("nan", None), ("inf", None)],
)
async def test_retry_after_is_read_when_it_makes_sense(model, scripted, header, seconds):
    scripted.script(scripts.rate_limited(retry_after=header))

    _, error = await fail(model)

    assert error.retry_after == seconds


async def test_an_error_that_is_null_is_none(model, scripted):
    scripted.script(Script([("chunk", {"error": None}), *scripts.answer("Yes").steps]))

    assert text_of(await collect(model)) == "Yes"


async def test_a_retry_after_date_is_read_by_the_providers_own_clock(model, scripted):
    dates = {"Retry-After": "Wed, 21 Oct 2015 07:28:40 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}
    scripted.script(replace(scripts.rate_limited(), headers=dates))

    _, error = await fail(model)

    assert error.retry_after == 40.0


@pytest.mark.parametrize(
    ("asked", "date"),
    [
        ("Wed, 21 Oct 2015 07:28:40 GMT", "soon"),
        ("Wed, 21 Oct 2015 07:27:00 GMT", "Wed, 21 Oct 2015 07:28:00 GMT"),
        ("Wed, 99 Oct 2015 07:28:40 GMT", "Wed, 21 Oct 2015 07:28:00 GMT"),
        ("Wed, 21 Oct 2015 07:28:40 -0000", "Wed, 21 Oct 2015 07:28:00 GMT"),
    ],
    ids=["no clock", "past", "no day", "no zone"],
)
async def test_a_retry_after_date_without_sense_asks_for_nothing(model, scripted, asked, date):
    """RUN-21: the schedule decides then."""
    scripted.script(replace(scripts.rate_limited(), headers={"Retry-After": asked, "Date": date}))

    _, error = await fail(model)

    assert (type(error), error.retry_after) == (RateLimited, None)


@pytest.mark.parametrize("dialect", ["openai", "llamacpp", "text", "stream"])
async def test_both_dialects_of_overflow_give_window_and_prompt(model, scripted, dialect):
    scripted.script(scripts.overflow(window=8192, prompt_tokens=9001, dialect=dialect))

    _, error = await fail(model)

    assert type(error) is ContextOverflow
    assert error.details == {"window": 8192, "prompt_tokens": 9001}


async def test_nothing_listening_is_unreachable(connect):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        items, error = await fail(connect(base_url=f"http://127.0.0.1:{port}/v1"))

    assert type(error) is ProviderUnreachable
    assert (items, error.output_started) == ([], False)


async def test_a_server_that_never_sends_headers_is_unreachable(connect, scripted):
    scripted.script(Script(silent=True))

    _, error = await fail(connect(read_timeout=0.2))

    assert type(error) is ProviderUnreachable
    assert str(error) == "The model server accepted the request and then stayed silent for too long"


async def test_silence_on_the_wire_after_output_is_a_broken_stream(connect, scripted):
    scripted.script(scripts.stall("a b c "))

    items, error = await fail(connect(read_timeout=0.8))

    assert type(error) is StreamBroken
    assert text_of(items) == "a b c "
