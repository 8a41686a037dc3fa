"""The last events of a run, derived from its stored terminal state alone.

Whoever finishes a run (its runner, the reaper, or a reader that finds the log without its end) says the same thing.
"""

from __future__ import annotations

from conversations.contracts import Settled
from conversations.events import Close, ContextUse, Done, EventData, MessageStored, RunError, RunStarted
from conversations.wire import ErrorBody, MessageBody, RunBody, TimingsBody, UsageBody

INTERRUPTED = ErrorBody(
    code="interrupted",
    message="The process that wrote this answer went away; what had arrived is kept. Send it again to get a whole one.",
    retryable=True,
)


def terminal_events(settled: Settled, *, last_seq: int) -> list[EventData]:
    """``message`` when an answer was stored, then ``done`` or ``error``, then ``close``.

    ``last_seq`` is the seq of the event before them; a log that had none also gets its ``run_started``.
    """
    run = settled.run
    events: list[EventData] = []
    if last_seq == 0:
        events.append(started_event(run))
    if settled.answer is not None:
        events.append(MessageStored(message=settled.answer))
    if run.status in ("completed", "cancelled"):
        events.append(_done(run, settled.answer))
    else:
        error = run.error or INTERRUPTED
        events.append(
            RunError(
                code=error.code,
                message=error.message,
                retryable=error.retryable,
                stalled=error.stalled,
                details=error.details,
            )
        )
    events.append(Close(status=run.status))
    return events


def terminal_count(*, has_answer: bool, last_seq: int) -> int:
    """How many events :func:`terminal_events` gives."""
    return 2 + has_answer + (last_seq == 0)


def started_event(run: RunBody) -> RunStarted:
    """The first event of every run."""
    return RunStarted(
        conversation_id=run.conversation_id,
        user_message_seq=run.user_message_seq,
        model=run.model,
        epoch=run.epoch,
    )


def _done(run: RunBody, answer: MessageBody | None) -> Done:
    context = None if answer is None else answer.metadata.get("context")
    return Done(
        status="completed" if run.status == "completed" else "cancelled",
        finish_reason=run.finish_reason or "stop",
        truncated=run.finish_reason == "length",
        usage=run.usage or UsageBody(),
        timings=run.timings or TimingsBody(),
        context=None if context is None else ContextUse.model_validate(context),
    )
