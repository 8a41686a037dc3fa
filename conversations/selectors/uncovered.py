"""Which conversations have messages that left the view before a digest segment could stand for them."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce, Now

from conversations.models import CompactionDigest, ContextEpoch, Conversation

AT_MOST = 50
WITHIN_DAYS = 1


def conversations_uncovered(*, limit: int = AT_MOST) -> list[UUID]:
    """Those in which something was said within the last day and whose newest segment ends before their cut, longest
    waiting first.

    After an edit the next turn decides anew where the cut is, so until then there is nothing to cover.
    """
    newest = CompactionDigest.objects.filter(
        conversation=OuterRef("pk"), status=CompactionDigest.Status.ACTIVE
    ).order_by("-from_seq")
    epoch = ContextEpoch.objects.filter(conversation=OuterRef("pk"), number=OuterRef("epoch"))
    rows = (
        Conversation.objects.filter(updated_at__gte=Now() - timedelta(days=WITHIN_DAYS), cut_seq__gt=0)
        .annotate(
            reach=Coalesce(Subquery(newest.values("through_seq")[:1]), 0),
            epoch_revision=Subquery(epoch.values("revision")[:1]),
        )
        .filter(reach__lt=F("cut_seq"), epoch_revision=F("revision"))
        .order_by("updated_at")
    )
    return list(rows.values_list("pk", flat=True)[:limit])
