"""Row locks by name, in one order: the digest lock of a conversation (``services.epochs.digest_lock``), the conversation,
its run, its evidence ledger, and last the record of the model, which every turn on it shares. Nobody takes them the other
way round.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models.functions import Now

from agentx.errors import LeaseLost
from conversations.models import Conversation, Run


def conversation_lock(*, conversation_id: UUID) -> Conversation:
    """Lock a conversation whose run the caller holds; needs a transaction.

    Raises ``LeaseLost`` when it was deleted meanwhile, since its runs went with it.
    """
    row = Conversation.objects.select_for_update().filter(pk=conversation_id).first()
    if row is None:
        raise LeaseLost
    return row


def run_lock_owned(*, run_id: UUID, token: UUID) -> Run:
    """Lock a running run whose lease the caller holds; needs a transaction. Its ``locked_at`` is the database's time.

    Raises ``LeaseLost`` when the token is void, so that an owner that was paused cannot write.
    """
    row = (
        Run.objects.select_for_update(of=("self",))
        .select_related("user_message")
        .annotate(locked_at=Now())
        .filter(pk=run_id, lease_token=token, status=Run.Status.RUNNING)
        .first()
    )
    if row is None:
        raise LeaseLost
    return row
