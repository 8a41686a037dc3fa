"""A conversation that goes through the real services turn after turn, without a model.

Storage, index, ledger, epochs, recall and assembly are the product's own, on its own database: only so does a rehearsal
say something about what a turn would see. What is left out is what needs others: queue, lease, event log and the model,
whose answers are given. The steps of a turn are those of ``services.view``; run it inside a transaction that is rolled
back, and nothing remains.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import transaction

from agentx.llm.tokens import default_counter
from conversations.context.assemble import View, assemble_view
from conversations.context.record import record_view
from conversations.context.types import Snapshot
from conversations.models import ContextEpoch, Conversation, Message, ModelRecord, Run
from conversations.selectors.snapshot import snapshot_load
from conversations.services.evidence import evidence_refresh
from conversations.services.index import entries_catch_up
from conversations.services.locks import conversation_lock
from conversations.services.prepare import epoch_settle
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append

MODEL = "rehearsal"


class RehearsalMoved(RuntimeError):
    """Somebody else moved the conversation's epoch, which nobody can while a rehearsal is the only one to see it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it would be sent. ``milliseconds``: reading, settling the epoch and assembling together."""

    run_id: UUID
    view: View
    snapshot: Snapshot
    record: dict[str, Any]
    milliseconds: float


def rehearsal_open(*, owner_id: int, window: int) -> Rehearsal:
    """A new conversation for ``owner_id``, with a model of ``window`` tokens at most."""
    ModelRecord.objects.update_or_create(model_id=MODEL, defaults={"max_input_tokens": window})
    conversation = Conversation.objects.create(owner_id=owner_id, title="Rehearsal")
    return Rehearsal(conversation_id=conversation.pk, window=window)


@dataclass(slots=True)
class Rehearsal:
    """One conversation. ``window``: tokens; a forced window of the installation that is smaller goes before it."""

    conversation_id: UUID
    window: int

    def ask(self, *, question: str) -> Asked:
        """Store a question and give the request for it. Raises ``DoesNotFitError`` and ``ViewUnstable``."""
        run_id = self._accept(question)
        began = time.perf_counter()
        snapshot = snapshot_load(run_id=run_id)
        if snapshot.model.window > self.window:
            snapshot = replace(snapshot, model=replace(snapshot.model, window=self.window))
        settled = epoch_settle(conversation_id=self.conversation_id, snapshot=snapshot)
        if settled is None:
            raise RehearsalMoved
        view = assemble_view(snapshot=settled, counter=default_counter())
        took = (time.perf_counter() - began) * 1_000
        return Asked(run_id, view, settled, record_view(view=view, snapshot=settled), took)

    def reply(self, *, asked: Asked, messages: tuple[NewMessage, ...]) -> None:
        """Store what the turn gave and end its run, then do what is done after a turn."""
        with transaction.atomic():
            conversation = conversation_lock(conversation_id=self.conversation_id)
            for new in messages:
                message_append(conversation=conversation, new=new, turn=asked.snapshot.question.turn)
            conversation_counters_save(conversation)
            Run.objects.filter(pk=asked.run_id).update(
                status=Run.Status.COMPLETED, final_seq=0, view=asked.record
            )
        evidence_refresh(conversation_id=self.conversation_id)
        entries_catch_up(conversation_id=self.conversation_id)

    def count_cuts(self) -> int:
        """Epochs with which turns left the view."""
        return ContextEpoch.objects.filter(conversation=self.conversation_id, messages_evicted__gt=0).count()

    def _accept(self, question: str) -> UUID:
        with transaction.atomic():
            conversation = conversation_lock(conversation_id=self.conversation_id)
            message = message_append(
                conversation=conversation,
                new=NewMessage(role=Message.Role.USER, content=question),
                turn=conversation.next_turn,
            )
            conversation_counters_save(conversation)
            run = Run.objects.create(
                conversation=conversation,
                user_message=message,
                request_hash="",
                model=MODEL,
                status=Run.Status.RUNNING,
            )
        return run.pk
