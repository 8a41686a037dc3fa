"""Accepting a message: what is stored, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import pytest

from agentx.errors import DoesNotFit, HeadMoved, KeyReused, NotFound, RunActive
from conversations.models import Conversation, Message, Run
from conversations.services.cancel import run_cancel
from conversations.services.conversations import conversation_create, conversation_delete
from conversations.services.submit import turn_submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation(user):
    return conversation_create(user_id=user.pk)


def _counts() -> tuple[int, int]:
    return Message.objects.count(), Run.objects.count()


def test_p1_a_send_stores_message_and_queued_run_together(user, conversation):
    accepted = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="What is 2 + 2?")

    row = Conversation.objects.get(pk=conversation.id)
    message = Message.objects.get()
    assert accepted.created
    assert (message.seq, message.turn, message.role, message.content) == (1, 1, "user", "What is 2 + 2?")
    assert message.cumulative_tokens == message.token_count > 0
    assert (row.next_seq, row.next_turn, row.head_hash) == (2, 2, message.chain_hash)
    assert row.title == "What is 2 + 2?"
    assert Run.objects.get().status == "queued"


def test_p1_the_same_key_gives_the_same_run_and_one_message(user, conversation):
    first = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello", client_key="k")

    again = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello", client_key="k")

    assert not again.created
    assert (again.run.id, again.message.id) == (first.run.id, first.message.id)
    assert _counts() == (1, 1)


def test_b53_the_same_key_with_another_body_is_refused(user, conversation):
    turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello", client_key="k")

    with pytest.raises(KeyReused):
        turn_submit(user_id=user.pk, conversation_id=conversation.id, content="other", client_key="k")

    assert _counts() == (1, 1)


def test_p2_a_second_turn_is_refused_and_names_the_active_run(user, conversation):
    first = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello")

    with pytest.raises(RunActive) as refused:
        turn_submit(user_id=user.pk, conversation_id=conversation.id, content="again")

    assert refused.value.details == {"run_id": str(first.run.id)}
    assert _counts() == (1, 1)


def test_c27_a_stale_sender_is_told_the_newest_seq(user, conversation):
    accepted = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello", expected_head=0)
    run_cancel(user_id=user.pk, run_id=accepted.run.id)

    with pytest.raises(HeadMoved) as refused:
        turn_submit(user_id=user.pk, conversation_id=conversation.id, content="again", expected_head=0)

    assert refused.value.details == {"head": 1}
    assert _counts() == (1, 1)


def test_b49_a_message_beyond_the_window_is_refused_with_figures(user, conversation, settings):
    """CTX-18."""
    settings.CONTEXT_WINDOW_TOKENS = 1000

    with pytest.raises(DoesNotFit) as refused:
        turn_submit(user_id=user.pk, conversation_id=conversation.id, content="word " * 5000)

    assert refused.value.details["budget"] == 688  # 1000 - 250 for the answer - 62 for safety
    assert "send it in parts" in refused.value.message
    assert _counts() == (0, 0)


def test_ctx_18_a_message_that_only_our_estimate_finds_too_long_is_left_to_the_runner(
    user, conversation, settings
):
    """CTX-18: a tokenizer for many languages makes half of the tokens that ours does."""
    settings.CONTEXT_WINDOW_TOKENS = 1000
    Conversation.objects.update(calibration=0.5, calibration_calls=3, calibration_model=settings.LLM_MODEL)

    turn_submit(user_id=user.pk, conversation_id=conversation.id, content="word " * 1000)

    assert _counts() == (1, 1)


def test_p17_another_users_conversation_does_not_exist(other_user, conversation):
    """OPS-04."""
    with pytest.raises(NotFound):
        turn_submit(user_id=other_user.pk, conversation_id=conversation.id, content="hello")

    assert _counts() == (0, 0)


def test_p13_a_queued_run_is_cancelled_at_once_and_again_without_effect(
    user, conversation, django_capture_on_commit_callbacks
):
    accepted = turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello")

    with django_capture_on_commit_callbacks(execute=True):
        first = run_cancel(user_id=user.pk, run_id=accepted.run.id)
    second = run_cancel(user_id=user.pk, run_id=accepted.run.id)

    assert (first.status, first.finish_reason, first.final_seq) == ("cancelled", "stopped", 3)
    assert second == first


def test_deleting_a_conversation_takes_its_messages_and_runs(user, conversation):
    turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello")

    conversation_delete(user_id=user.pk, conversation_id=conversation.id)

    assert _counts() == (0, 0)
    assert not Conversation.objects.exists()


def test_the_database_refuses_to_rewrite_or_drop_a_message(user, conversation):
    from django.db import IntegrityError, transaction

    turn_submit(user_id=user.pk, conversation_id=conversation.id, content="hello")

    for attempt in (lambda: Message.objects.update(content="forged"), lambda: Message.objects.all().delete()):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            attempt()
    assert Message.objects.get().content == "hello"
