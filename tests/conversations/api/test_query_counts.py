"""What a request costs in queries does not grow with the conversation."""

from __future__ import annotations

import pytest
from django.utils import timezone

from agentx.accounts.models import ApiToken
from conversations.models import Conversation, Message
from conversations.services.conversations import conversation_create

pytestmark = pytest.mark.django_db

# Savepoint, lock, active run with queue length, what is known of the model, message, run, counters, release.
SEND = 8
TOKEN = 1  # the token with its user; its last use is fresh and not written again


@pytest.fixture
def client(client):
    ApiToken.objects.update(last_used_at=timezone.now())
    return client


@pytest.fixture(params=[0, 5000], ids=["empty", "5,000 messages"])
def conversation(request, user):
    body = conversation_create(user_id=user.pk, title="long")
    Message.objects.bulk_create(
        Message(
            conversation_id=body.id,
            seq=number,
            turn=number,
            role="user",
            content="x",
            token_count=1,
            tokenizer="t",
            cumulative_tokens=number,
            chain_hash="0" * 64,
        )
        for number in range(1, request.param + 1)
    )
    Conversation.objects.update(next_seq=request.param + 1, next_turn=request.param + 1)
    return body


def test_a_page_of_messages_takes_two_queries(client, conversation, django_assert_num_queries):
    with django_assert_num_queries(TOKEN + 2):
        response = client.get(f"/api/conversations/{conversation.id}/messages")

    assert response.status_code == 200


@pytest.mark.parametrize("count", [1, 30])
def test_a_page_of_conversations_takes_three_queries(client, user, count, django_assert_num_queries):
    for _ in range(count):
        conversation_create(user_id=user.pk)

    with django_assert_num_queries(TOKEN + 3):
        response = client.get("/api/conversations")

    assert response.status_code == 200


def test_a_send_takes_the_same_queries_in_any_conversation(client, conversation, django_assert_num_queries):
    with django_assert_num_queries(TOKEN + SEND):
        response = client.post(
            f"/api/conversations/{conversation.id}/turns",
            {"content": "hello"},
            content_type="application/json",
        )

    assert response.status_code == 202
