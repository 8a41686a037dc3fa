"""The next turn's view before it is sent: the same reading and assembling as in a turn, but nothing is stored.

So it is an estimate in three respects: the provider is not asked for its window or for exact counts, and evidence and the
search index are taken as they stand, which a turn would first bring up to date.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from agentx.accounts.selectors import user_role
from agentx.llm.messages import UserMessage
from agentx.llm.tokens import default_counter
from conversations.context.assemble import View, assemble_view
from conversations.context.epoch import begin_epoch, plan_epoch
from conversations.context.record import record_view
from conversations.context.types import DoesNotFitError, EpochReason, Snapshot, TranscriptMessage
from conversations.models import ContextEpoch, Conversation, Run
from conversations.selectors import access
from conversations.selectors.digests import segments_read, with_evidence
from conversations.selectors.explain import epoch_segments, fates_body, segment_body, view_body
from conversations.selectors.model_profiles import planned_window, profile_read
from conversations.selectors.rebuild import dump_request
from conversations.selectors.snapshot import conversation_snapshot, passages_read, view_counter
from conversations.selectors.withdrawn import Withdrawn, withdrawn_read
from conversations.services.epochs import with_epoch
from conversations.services.evidence import evidence_read
from conversations.wire_context import ContextPreviewBody, SegmentBody
from tools.registry import default_registry
from tools.routing import ToolOffer


def context_preview(
    *,
    user_id: int,
    conversation_id: UUID,
    message: str,
    from_seq: int | None = None,
    through_seq: int | None = None,
    request: bool = False,
) -> ContextPreviewBody:
    """What the model would see if ``message`` were sent now. Raises ``NotFound`` for what is not the user's.

    ``from_seq``, ``through_seq``: limit the fates. ``request``: with the whole request.
    """
    conversation = access.conversation_get(user_id=user_id, conversation_id=conversation_id)
    model = settings.LLM_MODEL
    snapshot = conversation_snapshot(
        conversation=conversation,
        question=_draft_message(conversation, message),
        model=model,
        reported_window=_last_reported_window(conversation, model=model),
        offer=ToolOffer(
            mode=settings.TOOL_ROUTING_MODE,
            tools=default_registry().tools,
            role=user_role(is_superuser=conversation.owner.is_superuser),
        ),
    )
    withdrawn = _withdrawn(conversation)
    try:
        next_view = _plan(conversation, snapshot, withdrawn)
    except DoesNotFitError as failure:
        return ContextPreviewBody(
            conversation_id=conversation.pk,
            model=model,
            fits=False,
            needs=failure.needs,
            budget=failure.budget,
            epoch_change=None,
            view=None,
            messages=None,
        )
    record = record_view(view=next_view.view, snapshot=next_view.snapshot)
    allocation = next_view.view.allocation
    return ContextPreviewBody(
        conversation_id=conversation.pk,
        model=model,
        fits=True,
        needs={grant.key: grant.granted for grant in allocation.grants},
        budget=allocation.budget,
        epoch_change=next_view.change,
        view=view_body(
            record=record,
            allocation=asdict(allocation),
            blocks=next_view.snapshot.epoch.blocks,
            segments=next_view.segments,
            began_at=next_view.began_at,
            fates=fates_body(record=record, withdrawn=withdrawn, from_seq=from_seq, through_seq=through_seq),
            withdrawn=withdrawn,
        ),
        messages=dump_request(next_view.view.messages) if request else None,
    )


@dataclass(frozen=True, slots=True)
class _NextView:
    """A view with what is told of its epoch. ``change``: why that would begin; None while the present one goes on."""

    view: View
    snapshot: Snapshot
    segments: tuple[SegmentBody, ...]
    change: EpochReason | None
    began_at: datetime | None


def _plan(conversation: Conversation, snapshot: Snapshot, withdrawn: Withdrawn) -> _NextView:
    """What ``view_prepare`` does, in memory alone. Raises ``DoesNotFitError``."""
    counter = view_counter(snapshot)
    plan = plan_epoch(snapshot=snapshot, counter=counter)
    if plan is None:
        row = ContextEpoch.objects.get(conversation=conversation, number=snapshot.epoch.number)
        view = assemble_view(snapshot=snapshot, counter=counter)
        segments = epoch_segments(epoch=row, withdrawn=withdrawn)
        return _NextView(view, snapshot, segments, change=None, began_at=row.created_at)
    before = with_evidence(snapshot.epoch, conversation_id=conversation.pk)
    snapshot = replace(snapshot, epoch=before)
    draft = begin_epoch(
        snapshot=snapshot,
        plan=plan,
        segments=segments_read(conversation_id=conversation.pk),
        evidence=evidence_read(conversation_id=conversation.pk) if plan.cut_seq else None,
        counter=counter,
    )
    settled = with_epoch(snapshot, draft.state)
    settled = replace(settled, passages=passages_read(conversation_id=conversation.pk, snapshot=settled))
    view = assemble_view(snapshot=settled, counter=counter)
    segments = tuple(segment_body(segment) for segment in draft.active)
    return _NextView(view, settled, segments, change=plan.reason, began_at=None)


def _draft_message(conversation: Conversation, message: str) -> TranscriptMessage:
    """The message as its row would be."""
    return TranscriptMessage(
        id=0,
        seq=conversation.next_seq,
        turn=conversation.next_turn,
        role="user",
        content=message,
        tokens=default_counter().count_message(UserMessage(content=message)),
    )


def _withdrawn(conversation: Conversation) -> Withdrawn:
    if not conversation.revision:
        return Withdrawn()
    return withdrawn_read(
        conversation_id=conversation.pk, through_seq=conversation.next_seq - 1, moment=timezone.now()
    )


def _last_reported_window(conversation: Conversation, *, model: str) -> int | None:
    """The window of the conversation's last call of this model where it came from the server; None where it did not.

    Only a server's report gives other facts than those that are at hand here.
    """
    runs = Run.objects.filter(conversation=conversation, model=model, view__isnull=False)
    last = runs.order_by("-created_at").only("allocation", "view").first()
    if last is None or settings.CONTEXT_WINDOW_TOKENS:
        return None
    profile = profile_read(model=model, reported_window=None)
    window = (last.allocation or {}).get("window")
    strict = (last.view or {}).get("strict_roles")
    at_hand = (planned_window(profile), profile.strict_roles)
    return window if isinstance(window, int) and (window, strict) != at_hand else None
