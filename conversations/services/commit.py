"""The end of a turn: one transaction in which the answer, its usage and the run's terminal state become true together."""

from __future__ import annotations

import contextlib
from typing import Any, cast
from uuid import UUID

import redis
import structlog
from django.conf import settings
from django.db import transaction

from agentx.llm.messages import ToolSchema
from agentx.queue import enqueue_on_commit
from agentx.redis_client import redis_client
from conversations.context.render import hash_tools
from conversations.contracts import Outcome, RunClaim, Settled
from conversations.events import encode_event
from conversations.models import Conversation, Message, Run, ToolSet
from conversations.selectors.bodies import answer_of, message_body, run_body
from conversations.services.exchanges import exchange_append
from conversations.services.locks import conversation_lock, run_lock_owned
from conversations.services.metering import model_calls_store, price_calls, sum_usage
from conversations.services.models import CALIBRATION, calibration_note
from conversations.services.notices import notice_on_commit
from conversations.services.steering import steers_carry_over
from conversations.services.terminal import terminal_count, terminal_events
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append
from conversations.stream import APPEND_SCRIPT, head_key, log_key
from conversations.wire import REFUSED, TimingsBody, UsageBody

log = structlog.get_logger(__name__)

# What the end of a turn changes in its run.
_SETTLED = (
    *("status", "final_seq", "finish_reason", "usage", "timings", "allocation", "view", "error"),
    *("partial_text", "lease_until", "finished_at"),
)


def turn_commit(*, claim: RunClaim, outcome: Outcome, last_seq: int) -> Settled:
    """Store the outcome of a turn whose lease the caller holds. Raises ``LeaseLost`` and stores nothing otherwise.

    ``last_seq``: the seq of the last event before the terminal ones, which the caller appends afterwards.
    """
    return run_settle(
        run_id=claim.run_id,
        conversation_id=claim.conversation_id,
        token=claim.token,
        last_seq=last_seq,
        outcome=outcome,
        queued_ms=claim.queued_ms,
    )


def settled_read(*, claim: RunClaim) -> Settled | None:
    """The terminal state this claim has already stored, for a commit whose reply was lost; None when it has not."""
    run = (
        Run.objects.select_related("user_message")
        .filter(pk=claim.run_id, lease_token=claim.token)
        .exclude(status__in=Run.ACTIVE)
        .first()
    )
    if run is None:
        return None
    answer = answer_of(run)
    return Settled(run=run_body(run), answer=None if answer is None else message_body(answer))


def run_settle(
    *,
    run_id: UUID,
    conversation_id: UUID,
    token: UUID,
    last_seq: int,
    outcome: Outcome,
    queued_ms: int | None = None,
    append_events: bool = False,
) -> Settled:
    """Bring a running run into its terminal state; with ``append_events`` also finish its log after the commit."""
    with transaction.atomic():
        conversation = conversation_lock(conversation_id=conversation_id)
        run = run_lock_owned(run_id=run_id, token=token)
        priced = price_calls(outcome.calls)
        usage = sum_usage(priced)
        timings = TimingsBody(
            queued_ms=queued_ms, first_token_ms=outcome.first_token_ms, total_ms=outcome.total_ms
        )
        if outcome.unstored is not None:
            exchange_append(conversation=conversation, run=run, exchange=outcome.unstored, excerpt=None)
        answer = None
        if outcome.text.strip():
            answer = message_append(
                conversation=conversation,
                new=NewMessage(
                    role=Message.Role.ASSISTANT,
                    content=outcome.text,
                    status=Message.Status(outcome.message_status),
                    metadata=answer_metadata(model=run.model, outcome=outcome, usage=usage, timings=timings),
                ),
                turn=run.user_message.turn,
                run=run,
            )
        model_calls_store(
            priced=priced, user_id=conversation.owner_id, conversation_id=conversation.pk, run_id=run.pk
        )
        _tool_set_store(outcome.tools)
        run.status = outcome.status
        run.final_seq = last_seq + terminal_count(has_answer=answer is not None, last_seq=last_seq)
        run.finish_reason = outcome.finish_reason
        run.usage = usage.model_dump()
        run.timings = timings.model_dump()
        run.allocation = outcome.allocation
        run.view = outcome.view
        run.error = None if outcome.error is None else outcome.error.model_dump()
        run.partial_text, run.lease_until, run.finished_at = "", None, cast(Any, run).locked_at
        run.save(update_fields=_SETTLED)
        steers_carry_over(conversation=conversation, run=run)
        conversation.last_input_tokens = usage.prompt_tokens or conversation.last_input_tokens
        learned = _calibrate(conversation=conversation, outcome=outcome)
        conversation_counters_save(conversation, also=CALIBRATION if learned else ())
        settled = Settled(run=run_body(run), answer=None if answer is None else message_body(answer))
        if append_events:
            transaction.on_commit(lambda: log_finish(settled=settled, token=token, last_seq=last_seq))
        notice_on_commit(kind="finished", conversation_id=conversation.pk, run_id=run.pk)
        enqueue_on_commit("conversations.after_turn", conversation_id=conversation.pk)
        derived = conversation.title_source == Conversation.TitleSource.DERIVED
        if settings.TITLES_BY_MODEL and derived and not conversation.title_asked:
            enqueue_on_commit("conversations.write_title", conversation_id=conversation.pk)
    return settled


def _calibrate(*, conversation: Conversation, outcome: Outcome) -> bool:
    """Compare the first call's estimate with what its provider reported; later calls of a turn resend the same text."""
    call = next((call for call in outcome.calls if call.finish_reason != REFUSED), None)
    if call is None:
        return False
    return calibration_note(
        conversation=conversation,
        model=call.model,
        reported=call.prompt_tokens,
        estimated=round(call.estimated_prompt_tokens / call.calibration),
    )


def answer_metadata(
    *, model: str, outcome: Outcome, usage: UsageBody, timings: TimingsBody
) -> dict[str, object]:
    """What a reloaded page needs to show an answer as it was shown live. ``model``: the one that was asked for."""
    allocation = outcome.allocation
    context = None
    if allocation is not None:
        context = {
            "used": allocation["used"],
            "window": allocation["window"],
            "summarized": bool((outcome.view or {}).get("covered_seq")),
            "dropped_turns": allocation["dropped_turns"],
        }
    answered = next((call.model for call in reversed(outcome.calls) if call.finish_reason != REFUSED), model)
    return {
        "model": answered,
        **({} if answered == model else {"requested_model": model}),
        "usage": usage.model_dump(),
        "timings": timings.model_dump(),
        "finish_reason": outcome.finish_reason,
        "truncated": outcome.truncated,
        "interrupted": outcome.message_status in ("interrupted", "stopped"),
        "had_thinking": outcome.had_thinking,
        "context": context,
        "error": None if outcome.error is None else outcome.error.model_dump(),
    }


def log_finish(*, settled: Settled, token: UUID, last_seq: int) -> None:
    """Append the terminal events of a settled run; without Redis, readers derive them from the row."""
    run_id = settled.run.id
    payloads = [
        encode_event(run_id=str(run_id), seq=last_seq + index, data=event)
        for index, event in enumerate(terminal_events(settled, last_seq=last_seq), start=1)
    ]
    with contextlib.suppress(redis.exceptions.RedisError, OSError):
        redis_client().eval(
            APPEND_SCRIPT,
            2,
            log_key(run_id),
            head_key(run_id),
            str(token),
            str(last_seq + 1),
            "1",
            str(settings.EVENT_LOG_TTL_SECONDS),
            *payloads,
        )


def _tool_set_store(tools: tuple[ToolSchema, ...]) -> None:
    """Keep what the model was told of its tools, so that the request can be made again when they have changed."""
    key = hash_tools(tools) if tools else ""
    if not tools or ToolSet.objects.filter(hash=key).exists():
        return
    schemas = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools
    ]
    ToolSet.objects.bulk_create([ToolSet(hash=key, schemas=schemas)], ignore_conflicts=True)
