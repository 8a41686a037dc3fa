"""Steps on the way to an answer: a message with calls and all their results, stored together before the model sees them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from agentx.llm.messages import AssistantMessage, ToolCall, ToolMessage
from agentx.llm.tokens import default_counter
from conversations.context.types import TranscriptMessage
from conversations.contracts import Exchange, RunClaim
from conversations.models import Conversation, Message, Run
from conversations.selectors.bodies import message_body
from conversations.services.locks import conversation_lock, run_lock_owned
from conversations.services.steering import TakenSteer, steer_become
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append
from conversations.wire import MessageBody
from tools.contracts import Executed

# As much of a result as people see in a list of steps.
SUMMARY_CHARACTERS = 200


def exchange_store(
    *,
    claim: RunClaim,
    exchange: Exchange | None,
    steers: Sequence[TakenSteer] = (),
    excerpt: int | None,
    seq: int,
) -> tuple[MessageBody, ...]:
    """Store a step of a run whose lease the caller holds, and the messages that were taken in behind it; gives the latter.

    ``excerpt``: the characters each result is limited to in the first request that holds it. ``seq``: of the last event
    before it, up to which nothing of the answer proper has been written. Raises ``LeaseLost`` and stores nothing then.
    """
    with transaction.atomic():
        conversation = conversation_lock(conversation_id=claim.conversation_id)
        run = run_lock_owned(run_id=claim.run_id, token=claim.token)
        if exchange is not None:
            exchange_append(conversation=conversation, run=run, exchange=exchange, excerpt=excerpt)
        taken = [_steer_append(conversation=conversation, run=run, steer=steer) for steer in steers]
        conversation_counters_save(conversation)
        Run.objects.filter(pk=run.pk).update(partial_text="", partial_seq=seq)
    return tuple(message_body(row) for row in taken)


def _steer_append(*, conversation: Conversation, run: Run, steer: TakenSteer) -> Message:
    row = message_append(
        conversation=conversation,
        new=NewMessage(role=Message.Role.USER, content=steer.content, metadata={"steered": True}),
        turn=run.user_message.turn,
        run=run,
    )
    steer_become(steer_id=steer.id, message=row)
    return row


def exchange_append(
    *, conversation: Conversation, run: Run, exchange: Exchange, excerpt: int | None
) -> list[Message]:
    """Append the messages of a step; locking and saving the conversation are the caller's."""
    limited = {} if excerpt is None else {"excerpt": excerpt}
    calls = [
        {"id": item.call.id, "name": item.call.name, "label": item.label, "arguments": item.call.arguments}
        for item in exchange.executed
    ]
    first = NewMessage(
        role=Message.Role.ASSISTANT, content=exchange.text, tool_calls=calls, metadata={**limited}
    )
    results = [
        NewMessage(
            role=Message.Role.TOOL,
            content=item.result.content,
            tool_call_id=item.call.id,
            artifact=item.result.artifact,
            metadata={**limited, **_result_metadata(item)},
        )
        for item in exchange.executed
    ]
    turn = run.user_message.turn
    return [
        message_append(conversation=conversation, new=new, turn=turn, run=run) for new in (first, *results)
    ]


def transcript_rows(
    *, exchange: Exchange, turn: int, first_seq: int, excerpt: int | None = None
) -> tuple[TranscriptMessage, ...]:
    """The messages of a step as the engine sees them, stored or about to be.

    Ids that no stored message has: within the turn that writes them, only their being different matters.
    """
    counter = default_counter()
    calls = tuple(ToolCall(item.call.id, item.call.name, item.call.arguments) for item in exchange.executed)
    said = AssistantMessage(content=exchange.text, tool_calls=calls)
    rows = [
        TranscriptMessage(
            id=-first_seq,
            seq=first_seq,
            turn=turn,
            role="assistant",
            content=exchange.text,
            tokens=counter.count_message(said),
            tool_calls=calls,
            excerpt=excerpt,
        )
    ]
    for seq, item in enumerate(exchange.executed, first_seq + 1):
        value = ToolMessage(content=item.result.content, tool_call_id=item.call.id)
        rows.append(
            TranscriptMessage(
                id=-seq,
                seq=seq,
                turn=turn,
                role="tool",
                content=item.result.content,
                tokens=counter.count_message(value),
                tool_call_id=item.call.id,
                artifact=item.result.artifact,
                model_context=item.result.model_context,
                excerpt=excerpt,
                ok=item.result.ok,
            )
        )
    return tuple(rows)


def summarize_result(executed: Executed) -> str:
    """The first words of a result, on one line."""
    text = " ".join(executed.result.content[: SUMMARY_CHARACTERS * 4].split())
    return text if len(text) <= SUMMARY_CHARACTERS else text[: SUMMARY_CHARACTERS - 1] + "…"


def clip_arguments_text(arguments: str, *, most: int = 2_000) -> str:
    """Arguments as an event carries them."""
    return arguments if len(arguments) <= most else arguments[: most - 1] + "…"


def _result_metadata(executed: Executed) -> dict[str, Any]:
    """``model_context`` lies in the metadata too: it is a form of the artifact that views are made of."""
    metadata: dict[str, Any] = {
        "ok": executed.result.ok,
        "duration_ms": round(executed.seconds * 1000),
        "summary": summarize_result(executed),
    }
    if executed.result.model_context is not None:
        metadata["model_context"] = json.loads(json.dumps(executed.result.model_context))
    return metadata
