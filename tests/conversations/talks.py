"""Conversations of any length and turns without a runner, for tests that look at the database."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import transaction

from agentx.llm.messages import AssistantMessage, UserMessage
from agentx.llm.tokens import default_counter
from conversations.context.assemble import View, assemble_view
from conversations.context.record import record_view
from conversations.context.types import Snapshot
from conversations.models import Conversation, Message, Run
from conversations.selectors.snapshot import snapshot_load
from conversations.services.conversations import conversation_create
from conversations.services.prepare import epoch_settle
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append


def talk_import(*, user_id: int, turns: int, words: int = 30, long_turn: range = range(0)) -> UUID:
    """A conversation of ``turns`` turns that came in whole, each message with its own seq in its words.

    ``long_turn``: seqs that are all of one turn.
    """
    row = Conversation.objects.get(pk=conversation_create(user_id=user_id, title="long").id)
    counter = default_counter()
    rows, total = [], 0
    for seq in range(1, 2 * turns + 1):
        user = seq % 2 == 1
        content = f"Message seq{seq}x says this. " + "filler " * words
        tokens = counter.count_message(
            UserMessage(content=content) if user else AssistantMessage(content=content)
        )
        total += tokens
        rows.append(
            Message(
                conversation=row,
                seq=seq,
                turn=((long_turn[0] if seq in long_turn else seq) + 1) // 2,
                role="user" if user else "assistant",
                content=content,
                token_count=tokens,
                tokenizer=counter.name,
                cumulative_tokens=total,
                chain_hash=f"{seq:064x}",
            )
        )
    Message.objects.bulk_create(rows)
    row.next_seq, row.next_turn, row.total_tokens = 2 * turns + 1, turns + 1, total
    row.head_hash = rows[-1].chain_hash if rows else ""
    row.save()
    return row.pk


@dataclass(frozen=True)
class Asked:
    """A question's view as it would be sent."""

    view: View
    snapshot: Snapshot

    @property
    def text(self) -> str:
        return "\n".join(str(message.content) for message in self.view.messages)

    def block(self, key: str) -> str:
        """A frozen block's content, empty when there is none."""
        return next((item.content for item in self.snapshot.epoch.blocks if item.key == key), "")


def question_add(*, conversation_id: UUID, question: str) -> Run:
    """Store a question with a run that nobody claims."""
    with transaction.atomic():
        conversation = Conversation.objects.select_for_update().get(pk=conversation_id)
        message = message_append(
            conversation=conversation,
            new=NewMessage(role=Message.Role.USER, content=question),
            turn=conversation.next_turn,
        )
        conversation_counters_save(conversation)
        return Run.objects.create(
            conversation=conversation, user_message=message, request_hash="x", model=settings.LLM_MODEL
        )


def run_view(run: Run) -> Asked:
    """Bring the conversation into an epoch with room and assemble."""
    snapshot = snapshot_load(run_id=run.pk)
    settled = epoch_settle(conversation_id=run.conversation_id, snapshot=snapshot)
    assert settled is not None
    return Asked(assemble_view(snapshot=settled, counter=default_counter()), settled)


def talk_turn(*, conversation_id: UUID, question: str, answer: str = "ok") -> Asked:
    """A whole turn: question, view, answer, a run that has ended and remembers its view."""
    run = question_add(conversation_id=conversation_id, question=question)
    asked = run_view(run)
    with transaction.atomic():
        conversation = Conversation.objects.select_for_update().get(pk=conversation_id)
        message_append(
            conversation=conversation,
            new=NewMessage(role=Message.Role.ASSISTANT, content=answer),
            turn=run.user_message.turn,
            run=run,
        )
        conversation_counters_save(conversation)
        run.status, run.final_seq = Run.Status.COMPLETED, 1
        run.view = record_view(view=asked.view, snapshot=asked.snapshot)
        run.save()
    return asked
