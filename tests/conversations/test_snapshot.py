"""INV-10: what a turn reads depends on the window, not on the length of the conversation."""

from __future__ import annotations

import pytest

from conversations.models import Conversation, Message, Run
from conversations.selectors.snapshot import MAX_ROWS, snapshot_load
from conversations.services.cancel import run_cancel
from conversations.services.conversations import conversation_create
from conversations.services.leases import runs_claim
from conversations.services.submit import turn_submit

pytestmark = pytest.mark.django_db


def _filled(user_id: int, count: int, *, tokens: int = 44) -> Conversation:
    """A conversation of ``count`` short messages of a given stored size."""
    row = Conversation.objects.get(pk=conversation_create(user_id=user_id, title="long").id)
    Message.objects.bulk_create(
        Message(
            conversation=row,
            seq=n,
            turn=(n + 1) // 2,
            role="user" if n % 2 else "assistant",
            content=f"message {n}",
            token_count=tokens,
            tokenizer="test",
            cumulative_tokens=n * tokens,
            chain_hash="",
        )
        for n in range(1, count + 1)
    )
    row.next_seq, row.next_turn, row.total_tokens = count + 1, count // 2 + 1, count * tokens
    row.save()
    return row


@pytest.mark.parametrize("count", [10, 5000])
def test_inv_10_a_snapshot_takes_the_same_queries_and_bounded_rows(
    user, settings, django_assert_num_queries, count
):
    settings.CONTEXT_WINDOW_TOKENS = 32_768
    conversation = _filled(user.pk, count)
    run = turn_submit(user_id=user.pk, conversation_id=conversation.pk, content="and now?").run

    with django_assert_num_queries(4):  # run, model, history, the previous run
        snapshot = snapshot_load(run_id=run.id)

    assert len(snapshot.history) == min(count, MAX_ROWS)
    assert snapshot.history[-1].content == f"message {count}"


def test_inv_10_rows_that_could_not_fit_are_not_loaded(user, settings):
    settings.CONTEXT_WINDOW_TOKENS = 8_192  # 5,632 for the prompt
    conversation = _filled(user.pk, 100, tokens=1_000)
    run = turn_submit(user_id=user.pk, conversation_id=conversation.pk, content="and now?").run

    snapshot = snapshot_load(run_id=run.id)

    assert len(snapshot.history) == 22  # four budgets, since what settles is shortened
    assert snapshot.unloaded


def test_a_huge_result_does_not_push_older_turns_out_of_view(user, settings):
    """TUR-10: it is sent as a projection, so it counts as one."""
    settings.CONTEXT_WINDOW_TOKENS = 8_192
    conversation = _filled(user.pk, 10)
    Message.objects.create(
        conversation=conversation,
        seq=11,
        turn=5,
        role="tool",
        content="data",
        token_count=70_000,
        tokenizer="test",
        cumulative_tokens=70_440,
        chain_hash="",
    )
    Conversation.objects.update(next_seq=12)
    run = turn_submit(user_id=user.pk, conversation_id=conversation.pk, content="and now?").run

    snapshot = snapshot_load(run_id=run.id)

    assert [message.seq for message in snapshot.history] == list(range(1, 12))
    assert not snapshot.unloaded


@pytest.mark.parametrize("count", [10, 5000])
def test_a_turn_starts_with_the_same_queries_however_long_the_conversation(
    user, settings, django_assert_num_queries, count
):
    settings.CONTEXT_WINDOW_TOKENS = 32_768
    conversation = _filled(user.pk, count)

    # savepoint, lock, active and waiting, model, message, run, counters, release
    with django_assert_num_queries(8):
        accepted = turn_submit(user_id=user.pk, conversation_id=conversation.pk, content="and now?")

    run_cancel(user_id=user.pk, run_id=accepted.run.id)
    turn_submit(user_id=user.pk, conversation_id=conversation.pk, content="once more")
    with django_assert_num_queries(1):
        assert len(runs_claim(owner="r/1", limit=5)) == 1


def test_messages_that_were_superseded_or_deleted_are_not_in_the_view(user, settings):
    from django.utils import timezone

    settings.CONTEXT_WINDOW_TOKENS = 32_768
    conversation = _filled(user.pk, 6)
    Message.objects.filter(seq__in=(3, 4)).update(superseded_at=timezone.now())
    Message.objects.filter(seq=6).update(deleted_at=timezone.now())
    run = turn_submit(user_id=user.pk, conversation_id=conversation.pk, content="and now?").run

    assert [message.seq for message in snapshot_load(run_id=run.id).history] == [1, 2, 5]
    assert Run.objects.count() == 1
