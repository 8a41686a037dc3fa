"""Which conversations wait for the work after a turn because its task was lost."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, Subquery
from django.db.models.functions import Now

from conversations.models import Conversation, Message, Run

AT_MOST = 200
WITHIN_DAYS = 1


def conversations_lagging(*, limit: int = AT_MOST) -> list[UUID]:
    """Those in which something was said within the last day, without an active run, longest waiting first.

    They lag when their ledger stands before the newest message or before an edit, or when the newest message is not
    in the search index. What is older than a day is caught up when somebody sends a message there.
    """
    active = Run.objects.filter(conversation=OuterRef("pk"), status__in=Run.ACTIVE)
    # A subquery for a value and not EXISTS, which in this place the planner answers for the whole table at once.
    unindexed = Message.objects.filter(
        conversation=OuterRef("pk"),
        seq=OuterRef("next_seq") - 1,
        superseded_at=None,
        deleted_at=None,
        entry=None,
    )
    behind = (
        Q(evidence__isnull=True)
        | Q(evidence__cursor__lt=F("next_seq") - 1)
        | ~Q(evidence__revision=F("revision"))
        | Q(newest_unindexed__isnull=False)
    )
    rows = (
        Conversation.objects.filter(updated_at__gte=Now() - timedelta(days=WITHIN_DAYS), next_seq__gt=1)
        .annotate(newest_unindexed=Subquery(unindexed.values("seq")[:1]))
        .filter(behind, ~Exists(active))
        .order_by("updated_at")
    )
    return list(rows.values_list("pk", flat=True)[:limit])
