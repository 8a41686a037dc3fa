"""The work after a turn: what the task does, and how the sweep finds what was lost."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone

from conversations.models import Conversation, EvidenceLedger, Message, MessageEntry, Run
from conversations.selectors.lagging import conversations_lagging
from conversations.services.conversations import conversation_create
from conversations.services.evidence import evidence_read
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append
from conversations.tasks import after_turn, after_turn_sweep

pytestmark = pytest.mark.django_db


@pytest.fixture
def talk(user):
    """A function that makes a conversation of one turn and returns its id."""

    def make(*, hours_ago: int = 0) -> UUID:
        pk = conversation_create(user_id=user.pk).id
        with transaction.atomic():
            row = Conversation.objects.select_for_update().get(pk=pk)
            message_append(conversation=row, new=NewMessage(Message.Role.USER, "It must be blue"), turn=1)
            message_append(conversation=row, new=NewMessage(Message.Role.ASSISTANT, "Agreed"), turn=1)
            conversation_counters_save(row)
        Conversation.objects.filter(pk=pk).update(updated_at=timezone.now() - timedelta(hours=hours_ago))
        return pk

    return make


def _cursor(conversation_id: UUID) -> int | None:
    stored = evidence_read(conversation_id=conversation_id)
    return None if stored is None else stored.cursor


def _entries(conversation_id: UUID) -> int:
    return MessageEntry.objects.filter(conversation=conversation_id).count()


def test_sta_22_the_task_brings_ledger_and_index_up_to_date_however_often_it_runs(talk):
    """STA-22."""
    conversation_id = talk()

    for _ in range(3):
        after_turn.apply(kwargs={"conversation_id": str(conversation_id)}).get()

    assert (_cursor(conversation_id), _entries(conversation_id)) == (2, 2)
    assert EvidenceLedger.objects.get().version == 1


def test_the_task_of_a_conversation_that_is_gone_does_nothing():
    after_turn.apply(kwargs={"conversation_id": str(uuid4())}).get()

    assert not EvidenceLedger.objects.exists()


@pytest.mark.parametrize(
    ("table", "left"), [("evidenceledger", (None, 2)), ("messageentry", (2, 0))], ids=["ledger", "index"]
)
def test_a_step_that_fails_does_not_stop_the_other(transactional_db, talk, caplog, table, left):
    """And its log says nothing of what was written, which the database's own words would."""
    conversation_id = talk()
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE conversations_{table} ADD CONSTRAINT refused CHECK (false)")

    try:
        after_turn.apply(kwargs={"conversation_id": str(conversation_id)}).get()
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE conversations_{table} DROP CONSTRAINT refused")

    assert (_cursor(conversation_id), _entries(conversation_id)) == left
    assert "IntegrityError" in caplog.text
    assert "blue" not in caplog.text


def test_the_sweep_finds_what_lags_and_nothing_else(talk, user):
    never, behind, edited, unindexed, current, active, old = (talk(hours_ago=20 - n) for n in range(7))
    conversation_create(user_id=user.pk)
    for pk in (behind, edited, unindexed, current):
        after_turn.run(conversation_id=str(pk))
    EvidenceLedger.objects.filter(pk=behind).update(cursor=1)
    Conversation.objects.filter(pk=edited).update(revision=1)
    MessageEntry.objects.filter(conversation=unindexed, seq=2).delete()
    Conversation.objects.filter(pk=old).update(updated_at=timezone.now() - timedelta(days=2))
    question = Message.objects.filter(conversation=active).first()
    Run.objects.create(conversation_id=active, user_message=question, request_hash="x", model="m")

    assert conversations_lagging() == [never, behind, edited, unindexed]
    assert conversations_lagging(limit=1) == [never]


def test_a_sweep_does_the_work_and_the_next_finds_none(talk):
    ids = [talk(), talk()]

    first, second = after_turn_sweep.apply().get(), after_turn_sweep.apply().get()

    assert (first, second) == (2, 0)
    assert [_cursor(pk) for pk in ids] == [2, 2]


def test_withdrawn_messages_at_the_end_do_not_lag_for_ever(talk):
    conversation_id = talk()
    Message.objects.filter(conversation=conversation_id, seq=2).update(superseded_at=timezone.now())
    Conversation.objects.filter(pk=conversation_id).update(revision=1)

    after_turn_sweep.run()

    assert conversations_lagging() == []
    assert (_cursor(conversation_id), _entries(conversation_id)) == (2, 1)
