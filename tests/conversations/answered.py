"""Turns without a runner: what it does with a claimed run, step by step and in the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from agentx.llm.tokens import default_counter
from conversations.context.assemble import View, assemble_view
from conversations.context.record import record_view
from conversations.contracts import CallUsage, Outcome
from conversations.models import Conversation, Run
from conversations.selectors.snapshot import snapshot_load
from conversations.services.commit import turn_commit
from conversations.services.evidence import evidence_refresh
from conversations.services.index import entries_ensure
from conversations.services.leases import runs_claim
from conversations.services.prepare import epoch_settle
from conversations.services.submit import turn_submit
from tools.registry import default_registry
from tools.routing import ToolOffer


def turn_answer(
    *, user_id: int, conversation_id: UUID, question: str, answer: str = "ok", cached: int | None = None
) -> tuple[Run, View]:
    """Send a question and store an answer to it; the view is what a model would have been sent."""
    accepted = turn_submit(user_id=user_id, conversation_id=conversation_id, content=question)
    [claim] = runs_claim(owner="test/1", limit=1)
    offer = ToolOffer(mode="static", tools=default_registry().tools, role=claim.role)
    snapshot = snapshot_load(run_id=claim.run_id, offer=offer)
    settled = epoch_settle(conversation_id=conversation_id, snapshot=snapshot)
    assert settled is not None
    view = assemble_view(snapshot=settled, counter=default_counter())
    call = CallUsage(
        call_index=0,
        model=claim.model,
        prompt_tokens=view.allocation.used,
        cached_tokens=cached,
        output_tokens=1,
        reasoning_tokens=None,
        estimated_prompt_tokens=view.allocation.used,
        first_token_ms=1,
        total_ms=2,
        finish_reason="stop",
        predicted_cached_tokens=view.allocation.predicted_cached,
    )
    outcome = Outcome(
        status="completed",
        message_status="complete",
        text=answer,
        finish_reason="stop",
        truncated=False,
        had_thinking=False,
        calls=(call,),
        error=None,
        first_token_ms=1,
        total_ms=2,
        allocation=asdict(view.allocation),
        tools=view.tools,
        view=record_view(view=view, snapshot=settled),
    )
    turn_commit(claim=claim, outcome=outcome, last_seq=1)
    after_turn(conversation_id)
    return Run.objects.select_related("user_message").get(pk=accepted.run.id), view


def after_turn(conversation_id: UUID) -> None:
    """What the worker does after every turn."""
    head = Conversation.objects.values_list("next_seq", flat=True).get(pk=conversation_id) - 1
    evidence_refresh(conversation_id=conversation_id)
    entries_ensure(conversation_id=conversation_id, through_seq=head)


def long_talk(*, user_id: int, conversation_id: UUID, turns: int = 10, **more: Any) -> list[tuple[Run, View]]:
    """Turns of some 400 tokens each, the first of which states a constraint and says a name that is worth finding."""
    talk = [
        turn_answer(
            user_id=user_id,
            conversation_id=conversation_id,
            question="The budget must never exceed 4,200 euros. The boat is called Albatross.",
            answer="Understood.",
        )
    ]
    for number in range(2, turns + 1):
        talk.append(
            turn_answer(
                user_id=user_id,
                conversation_id=conversation_id,
                question=f"Note {number}. " + f"We looked at sail cloth sample {number} today. " * 30,
                answer=f"Noted, sample {number}. " * 16,
                **more,
            )
        )
    return talk
