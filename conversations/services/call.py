"""One call to the model: publish every piece as it comes, wait out what can be waited out, keep what came."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field

from agentx.errors import ModelError, RateLimited, RetryableModelError
from agentx.llm.client import ChatModel, with_stall_watch
from agentx.llm.health import is_refused
from agentx.llm.messages import (
    ContentDelta,
    Finish,
    ReasoningDelta,
    StreamItem,
    ToolCall,
    ToolCalls,
    UsageReport,
)
from agentx.llm.retry import rate_limit_wait
from agentx.llm.routes import ModelRoute
from conversations.context.assemble import View
from conversations.contracts import CallUsage, Exchange
from conversations.events import Delta, Status, Thinking
from conversations.stream import RunLog
from conversations.wire import REFUSED

# A provider that fails before any output is asked once more after this many seconds.
RETRY_AFTER_FAILURE = 1.0


@dataclass(frozen=True, slots=True)
class RespondLimits:
    """The operator's limits, in seconds."""

    stall: float
    first_ping: float
    ping_interval: float
    rate_limit_schedule: tuple[float, ...]


@dataclass(slots=True)
class Draft:
    """The answer so far. Filled while it streams, so that a failure at any moment finds what had come.

    ``pieces``: the text since the last stored step. ``characters``: published in the whole turn. ``unstored``: a step whose
    calls have been carried out and that is not stored yet. ``steps``: how many are. ``thought``: any call has given
    reasoning; ``answering``, ``thinking``: the call at work has given something, or reasoning.
    """

    pieces: list[str] = field(default_factory=list)
    characters: int = 0
    thought: bool = False
    thinking: bool = False
    answering: bool = False
    finish_reason: str | None = None
    first_token_ms: int | None = None
    calls: list[CallUsage] = field(default_factory=list)
    unstored: Exchange | None = None
    steps: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def output_started(self) -> bool:
        return bool(self.pieces) or self.thought


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call gave. ``text``: of this call alone."""

    text: str
    calls: tuple[ToolCall, ...]
    finish_reason: str


async def model_call(
    *,
    model: ChatModel,
    route: ModelRoute,
    view: View,
    draft: Draft,
    run_log: RunLog,
    limits: RespondLimits,
    started: float,
) -> Answer:
    """Stream the answer to ``view`` into ``draft`` and ``run_log``.

    ``route``: what ``model`` is at, for the record. ``started``: the monotonic time from which the first token is timed. Before any output of this call, a rate limit is
    waited out visibly and a failing provider is asked once more. Raises ``ModelError``; whatever came before stays in
    ``draft``.
    """
    limited, failed = 0, 0
    draft.answering = draft.thinking = False
    while True:
        try:
            return await _call_stream(
                model=model,
                route=route,
                view=view,
                draft=draft,
                run_log=run_log,
                limits=limits,
                started=started,
            )
        except RateLimited as error:
            wait = rate_limit_wait(
                attempt=limited, retry_after=error.retry_after, schedule=limits.rate_limit_schedule
            )
            if draft.answering or error.output_started or wait is None:
                raise
            limited += 1
            seconds = round(wait)
            label = f"The model provider is limiting requests; trying again in {seconds} s"
            run_log.emit(Status(phase="rate_limited", label=label, seconds=seconds))
            await asyncio.sleep(wait)
        except RetryableModelError as error:
            if draft.answering or error.output_started or failed:
                raise
            failed += 1
            await asyncio.sleep(RETRY_AFTER_FAILURE)


async def _call_stream(
    *,
    model: ChatModel,
    route: ModelRoute,
    view: View,
    draft: Draft,
    run_log: RunLog,
    limits: RespondLimits,
    started: float,
) -> Answer:
    """One request; its usage is recorded even when it fails."""
    call = _Call(
        route=route,
        started=time.monotonic(),
        estimated_prompt_tokens=view.allocation.used,
        predicted_cached_tokens=view.allocation.predicted_cached,
        calibration=view.allocation.calibration,
    )
    batches = model.batches(
        messages=view.messages,
        max_output_tokens=view.allocation.response,
        tools=view.tools,
        cache_breakpoints=view.breakpoints,
    )
    watched = with_stall_watch(batches, seconds=limits.stall)
    pinger = asyncio.create_task(_ping_waiting(run_log, limits))
    before = len(draft.pieces)
    calls: tuple[ToolCall, ...] = ()
    try:
        async with aclosing(watched) as source:  # so that the connection ends with the call, whatever ends it
            async for items in source:
                pinger.cancel()
                for item in items:
                    if isinstance(item, ContentDelta | ReasoningDelta):
                        if draft.first_token_ms is None:
                            draft.first_token_ms = _milliseconds_since(started)
                        _publish(item, draft=draft, run_log=run_log)
                    elif isinstance(item, ToolCalls):
                        calls = item.calls
                    elif isinstance(item, Finish):
                        draft.finish_reason = item.reason
                    call.note(item)
    except ModelError as error:
        if is_refused(error):
            call.finish_reason = REFUSED
        raise
    finally:
        pinger.cancel()
        draft.calls.append(call.as_usage(index=len(draft.calls)))
    return Answer("".join(draft.pieces[before:]), calls, call.finish_reason)


_UNREPORTED = UsageReport(prompt_tokens=None, cached_tokens=None, output_tokens=None, reasoning_tokens=None)


@dataclass(slots=True)
class _Call:
    """What one model call is remembered by."""

    route: ModelRoute
    started: float
    estimated_prompt_tokens: int
    predicted_cached_tokens: int | None
    calibration: float
    first_token_ms: int | None = None
    finish_reason: str = ""
    reported: UsageReport = _UNREPORTED

    def note(self, item: StreamItem) -> None:
        if isinstance(item, ContentDelta | ReasoningDelta) and self.first_token_ms is None:
            self.first_token_ms = _milliseconds_since(self.started)
        elif isinstance(item, UsageReport):
            self.reported = item
        elif isinstance(item, Finish):
            self.finish_reason = item.reason

    def as_usage(self, *, index: int) -> CallUsage:
        return CallUsage(
            call_index=index,
            model=self.route.model,
            provider=self.route.host,
            base_url=self.route.base_url,
            billed=self.reported.cost,
            calibration=self.calibration,
            prompt_tokens=self.reported.prompt_tokens,
            cached_tokens=self.reported.cached_tokens,
            output_tokens=self.reported.output_tokens,
            reasoning_tokens=self.reported.reasoning_tokens,
            estimated_prompt_tokens=self.estimated_prompt_tokens,
            predicted_cached_tokens=self.predicted_cached_tokens,
            first_token_ms=self.first_token_ms,
            total_ms=_milliseconds_since(self.started),
            finish_reason=self.finish_reason,
        )


def _publish(item: ContentDelta | ReasoningDelta, *, draft: Draft, run_log: RunLog) -> None:
    """Draft and log change together, without an await between them, so that a checkpoint's text fits its seq."""
    draft.answering = True
    if isinstance(item, ContentDelta):
        run_log.emit_text(Delta, item.text)
        draft.pieces.append(item.text)
        draft.characters += len(item.text)
        return
    if not draft.thinking:
        run_log.emit(Status(phase="thinking", label="Thinking"))
        draft.thought = draft.thinking = True
    run_log.emit_text(Thinking, item.text)


async def _ping_waiting(run_log: RunLog, limits: RespondLimits) -> None:
    """Say from time to time that we are waiting, until cancelled by the first chunk."""
    began = time.monotonic()
    await asyncio.sleep(limits.first_ping)
    while not run_log.fenced:
        seconds = round(time.monotonic() - began)
        run_log.emit(Status(phase="waiting", label="Waiting for the model's first word", seconds=seconds))
        await asyncio.sleep(limits.ping_interval)


def _milliseconds_since(moment: float) -> int:
    return round((time.monotonic() - moment) * 1000)
