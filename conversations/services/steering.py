"""Taking messages into a turn that has begun: at its safe boundaries, and what becomes of those it ends without.

A boundary is before the request that shows the results of a step, or before a turn's first one. What the turn has not taken
in when it ends, however it ends, becomes the next turn in the transaction that ends it: nothing that was accepted waits
for anybody to send it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Now

from agentx.llm.messages import UserMessage
from agentx.llm.tokens import default_counter
from conversations.context.types import TranscriptMessage
from conversations.contracts import RunClaim
from conversations.models import Conversation, Message, Run, Steer
from conversations.services.notices import notice_on_commit
from conversations.services.transcript import NewMessage, message_append


@dataclass(frozen=True, slots=True)
class TakenSteer:
    """A message that the turn is taking in."""

    id: UUID
    content: str


def steers_take(*, claim: RunClaim) -> tuple[TakenSteer, ...]:
    """What waits for a run whose lease the caller holds, in order; from now on it cannot be withdrawn."""
    waiting = Steer.objects.filter(
        run_id=claim.run_id, run__lease_token=claim.token, run__status=Run.Status.RUNNING, message=None
    )
    ids = list(waiting.order_by("created_at", "pk").values_list("pk", flat=True))
    if not ids:
        return ()
    Steer.objects.filter(pk__in=ids, taken_at=None, message=None).update(taken_at=Now())
    rows = Steer.objects.filter(pk__in=ids, message=None).order_by("created_at", "pk")
    return tuple(TakenSteer(id=row.pk, content=row.content) for row in rows)


def steers_release(*, claim: RunClaim) -> None:
    """Give back what was taken and could not be taken in: it becomes the next turn."""
    Steer.objects.filter(run_id=claim.run_id, message=None).update(taken_at=None)


def steer_rows(*, steers: Sequence[TakenSteer], turn: int, first_seq: int) -> tuple[TranscriptMessage, ...]:
    """The messages as the engine sees them, before they are stored; ids as in ``exchanges.transcript_rows``."""
    counter = default_counter()
    return tuple(
        TranscriptMessage(
            id=-seq,
            seq=seq,
            turn=turn,
            role="user",
            content=steer.content,
            tokens=counter.count_message(UserMessage(content=steer.content)),
        )
        for seq, steer in enumerate(steers, first_seq)
    )


def steer_become(*, steer_id: UUID, message: Message) -> None:
    """Note what a message became, and leave its words to the transcript. Part of the caller's transaction."""
    Steer.objects.filter(pk=steer_id).update(message=message, content="", taken_at=Now())


def steers_carry_over(*, conversation: Conversation, run: Run) -> None:
    """Make the first message that an ended run has not taken in the question of the next one, for which the others wait.

    Part of the transaction that ends ``run``, behind its status; locking and saving the conversation are the caller's.
    """
    waiting = list(Steer.objects.filter(run=run, message=None).order_by("created_at", "pk"))
    if not waiting:
        return
    first = waiting[0]
    message = message_append(
        conversation=conversation,
        new=NewMessage(role=Message.Role.USER, content=first.content),
        turn=conversation.next_turn,
    )
    following = Run.objects.create(
        conversation=conversation,
        user_message=message,
        client_key=first.client_key,
        request_hash=first.request_hash,
        model=settings.LLM_MODEL,
    )
    steer_become(steer_id=first.pk, message=message)
    Steer.objects.filter(pk__in=[steer.pk for steer in waiting]).update(run=following)
    Steer.objects.filter(pk__in=[steer.pk for steer in waiting[1:]]).update(taken_at=None)
    notice_on_commit(kind="queued", conversation_id=conversation.pk, run_id=following.pk)
