"""The one function that adds to a transcript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentx.llm.messages import AssistantMessage, UserMessage
from agentx.llm.tokens import default_counter
from conversations.context.chain import hash_message
from conversations.models import Conversation, Message, Run


def message_append(
    *,
    conversation: Conversation,
    role: Message.Role,
    content: str,
    turn: int,
    run: Run | None = None,
    status: Message.Status = Message.Status.COMPLETE,
    metadata: Mapping[str, Any] | None = None,
) -> Message:
    """Append one message to a conversation whose row the caller has locked, and advance its counters.

    Tokens are counted once, here. The caller saves the conversation (see :func:`conversation_counters_save`).
    """
    counter = default_counter()
    value = UserMessage(content=content) if role == Message.Role.USER else AssistantMessage(content=content)
    tokens = counter.count_message(value)
    seq = conversation.next_seq
    chain_hash = hash_message(
        previous=conversation.head_hash,
        seq=seq,
        role=role,
        content=content,
        parts=[],
        tool_calls=[],
        tool_call_id="",
    )
    row = Message.objects.create(
        conversation=conversation,
        seq=seq,
        turn=turn,
        role=role,
        content=content,
        status=status,
        run=run,
        token_count=tokens,
        tokenizer=counter.name,
        cumulative_tokens=conversation.total_tokens + tokens,
        chain_hash=chain_hash,
        metadata=dict(metadata or {}),
    )
    conversation.next_seq = seq + 1
    conversation.next_turn = turn + 1
    conversation.head_hash = chain_hash
    conversation.total_tokens += tokens
    conversation.updated_at = row.created_at
    return row


def conversation_counters_save(conversation: Conversation) -> None:
    """Write the end-of-transcript columns of a locked conversation."""
    conversation.save(
        update_fields=[
            "next_seq",
            "next_turn",
            "head_hash",
            "total_tokens",
            "updated_at",
            "last_input_tokens",
        ]
    )
