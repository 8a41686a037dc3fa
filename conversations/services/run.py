"""Hop 3: one turn from claim to terminal state, as a table of contents."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from functools import partial

import django.db
import structlog
from django.conf import settings

from agentx.errors import (
    AgentXError,
    Draining,
    LeaseLost,
    ModelError,
    ModelStalled,
    TurnStopped,
)
from agentx.threads import in_db_thread
from conversations.context.types import DoesNotFitError
from conversations.contracts import Outcome, RunClaim, Settled
from conversations.events import RunStarted
from conversations.services.call import Draft, RespondLimits
from conversations.services.commit import settled_read, turn_commit
from conversations.services.control import TurnControl
from conversations.services.leases import checkpoint_save
from conversations.services.patience import db_patiently
from conversations.services.report import does_not_fit_body, log_call
from conversations.services.respond import Turn, TurnTools, turn_respond
from conversations.services.terminal import INTERRUPTED, terminal_events
from conversations.stream import RunLog
from conversations.wire import ErrorBody, MessageStatus, RunStatus

log = structlog.get_logger(__name__)

# A partial answer is also saved whenever this many characters have come since the last time.
CHECKPOINT_CHARACTERS = 2048


async def turn_run(*, claim: RunClaim, run_log: RunLog, control: TurnControl, tools: TurnTools) -> None:
    """Execute a claimed run and leave it in exactly one terminal state, unless the lease is lost on the way."""
    turn = Turn(claim=claim, run_log=run_log, control=control, draft=Draft(), started=time.monotonic())
    run_log.on_loss = lambda: _checkpoint(turn)
    failure = await _attempt(turn, tools)
    if isinstance(failure, LeaseLost) or run_log.fenced:
        log.warning("turn_abandoned", reason="lease lost")
        return
    outcome = _outcome(turn, failure)
    last_seq = run_log.assign()
    settled = await _commit(turn, outcome, last_seq)
    if settled is None:
        return
    run_log.ttl = settings.EVENT_LOG_TTL_SECONDS
    for event in terminal_events(settled, last_seq=last_seq):
        run_log.emit(event)
    await run_log.flushed(timeout=2.0)
    for call in outcome.calls:
        log_call(call)
    log.info(
        "turn_finished",
        status=outcome.status,
        finish_reason=outcome.finish_reason,
        characters=len(outcome.text),
        first_token_ms=outcome.first_token_ms,
        total_ms=outcome.total_ms,
        error=None if outcome.error is None else outcome.error.code,
    )


async def _attempt(turn: Turn, tools: TurnTools) -> Exception | None:
    """Do the work in a task of its own, so that only the work is ever cancelled, never the saving; returns its failure."""
    work = asyncio.create_task(_work(turn, tools))
    keeper = asyncio.create_task(_checkpoints_keep(turn))
    turn.control.bind(work)
    try:
        await asyncio.wait({work})
    finally:
        keeper.cancel()
        await asyncio.wait({keeper})
    if not keeper.cancelled() and (error := keeper.exception()) is not None:
        log.error("checkpoints_failed", exc_info=error)  # the turn itself is whole
    if work.cancelled():
        return turn.control.reason or Draining()
    error = work.exception()
    if error is not None and not isinstance(error, AgentXError | DoesNotFitError):
        log.error("turn_crashed", exc_info=error)
    return error if isinstance(error, Exception) else None


async def _work(turn: Turn, tools: TurnTools) -> None:
    """Hops 4 to 6, as often as the model calls tools."""
    claim, run_log = turn.claim, turn.run_log
    run_log.emit(
        RunStarted(
            conversation_id=claim.conversation_id,
            user_message_seq=claim.user_message_seq,
            model=claim.model,
            epoch=claim.epoch,
        )
    )
    await turn_respond(turn=turn, tools=tools, limits=respond_limits())


async def _checkpoints_keep(turn: Turn) -> None:
    """Save the partial answer when its first piece has come, then every second or 2,048 characters."""
    saved = -1
    waited = 0.0
    tick = min(0.1, settings.RUN_CHECKPOINT_SECONDS)
    while True:
        await asyncio.sleep(tick)
        waited += tick
        shown = turn.draft.characters + turn.draft.thought
        due = waited >= settings.RUN_CHECKPOINT_SECONDS or shown - saved >= CHECKPOINT_CHARACTERS
        if turn.draft.output_started and shown != saved and (saved < 0 or due):
            saved, waited = shown, 0.0
            await _checkpoint(turn)


async def _checkpoint(turn: Turn) -> None:
    """Save the text so far with the seq it reaches to; a database that is away costs one checkpoint, not the turn."""
    seq, text = turn.run_log.assign(), turn.draft.text
    try:
        ours = await in_db_thread(checkpoint_save, claim=turn.claim, text=text, seq=seq)
    except django.db.Error as error:
        log.warning("checkpoint_failed", error=type(error).__name__)
        return
    if not ours:
        turn.control.end(LeaseLost())


async def _commit(turn: Turn, outcome: Outcome, last_seq: int) -> Settled | None:
    """Hop 7, shielded and repeated while the database is away; None when it stays away or the lease is lost."""
    doubtful = False

    def note_doubt() -> None:
        nonlocal doubtful
        doubtful = True

    hop = partial(turn_commit, claim=turn.claim, outcome=outcome, last_seq=last_seq)
    try:
        return await asyncio.shield(db_patiently(hop, on_failure=note_doubt))
    except LeaseLost:
        # Our own commit may have gone through although its reply did not.
        settled = await db_patiently(partial(settled_read, claim=turn.claim)) if doubtful else None
        if settled is None:
            log.warning("turn_abandoned", reason="lease lost at commit")
        return settled
    except django.db.Error as error:
        log.error("turn_commit_failed", error=type(error).__name__)  # the reaper stores what was shown
        return None


def _outcome(turn: Turn, failure: Exception | None) -> Outcome:
    """The terminal state that belongs to a failure, or to its absence."""
    status, message_status, error = grade_failure(failure)
    draft = turn.draft
    finish = {"cancelled": "stopped", "interrupted": "interrupted", "failed": "error"}.get(status)
    text = draft.text
    if error is not None and not text.strip() and (draft.steps or draft.unstored):
        text = _unfinished(error)
    return Outcome(
        status=status,
        message_status=message_status,
        text=text,
        finish_reason=finish or draft.finish_reason or "stop",
        truncated=draft.finish_reason == "length",
        had_thinking=draft.thought,
        calls=tuple(draft.calls),
        unstored=draft.unstored,
        tools=() if turn.prepared is None else turn.prepared.view.tools,
        error=error,
        first_token_ms=draft.first_token_ms,
        total_ms=round((time.monotonic() - turn.started) * 1000),
        allocation=None if turn.prepared is None else asdict(turn.prepared.view.allocation),
        view=None if turn.prepared is None else turn.prepared.record,
    )


def _unfinished(error: ErrorBody) -> str:
    """The answer of a turn that did something and then failed: its steps are kept, and the transcript says how it ended."""
    return f"I could not finish this answer: {error.message}. What the steps above found is kept."


def grade_failure(failure: Exception | None) -> tuple[RunStatus, MessageStatus, ErrorBody | None]:
    """Run status, message status and error of a failure. What is not one of ours is never shown in its own words."""
    if failure is None:
        return "completed", "complete", None
    if isinstance(failure, TurnStopped):
        return "cancelled", "stopped", None
    if isinstance(failure, Draining):
        return "interrupted", "interrupted", INTERRUPTED
    if isinstance(failure, DoesNotFitError):
        return "failed", "failed", does_not_fit_body(failure)
    if isinstance(failure, AgentXError):
        stalled = isinstance(failure, ModelStalled)
        retryable = failure.retryable or isinstance(failure, ModelError)
        body = ErrorBody(code=failure.code, message=failure.message, retryable=retryable, stalled=stalled)
        return "failed", "failed", body
    return "failed", "failed", ErrorBody(code="internal_error", message=AgentXError.title, retryable=True)


def respond_limits() -> RespondLimits:
    """The operator's limits as the responder takes them."""
    return RespondLimits(
        stall=settings.MODEL_STALL_SECONDS,
        first_ping=settings.SLOW_MODEL_FIRST_PING_SECONDS,
        ping_interval=settings.SLOW_MODEL_PING_INTERVAL_SECONDS,
        rate_limit_schedule=tuple(settings.RATE_LIMIT_WAIT_SCHEDULE),
    )
