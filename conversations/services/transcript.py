"""The one function that adds to a transcript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentx.llm.messages import AssistantMessage, ChatMessage, ToolMessage, UserMessage
from agentx.llm.tokens import default_counter
from conversations.context.chain import hash_message
from conversations.context.stored import parts_from_json, tool_calls_from_json
from conversations.models import Conversation, Message, Run


@dataclass(frozen=True, slots=True)
class NewMessage:
    """What is to be added. ``parts``, ``tool_calls``: as columns hold them (see ``conversations.context.stored``).

    ``artifact``: a tool's whole result for people and storage; it is never sent and costs no tokens.
    """

    role: Message.Role
    content: str
    parts: Sequence[Mapping[str, Any]] = ()
    tool_calls: Sequence[Mapping[str, Any]] = ()
    tool_call_id: str = ""
    artifact: Any = None
    status: Message.Status = Message.Status.COMPLETE
    metadata: Mapping[str, Any] = field(default_factory=dict)


def message_append(
    *, conversation: Conversation, new: NewMessage, turn: int, run: Run | None = None
) -> Message:
    """Append one message to a conversation whose row the caller has locked, and advance its counters.

    Tokens are counted once, here. The caller saves the conversation (see :func:`conversation_counters_save`).
    """
    counter = default_counter()
    tokens = counter.count_message(_value(new))
    seq = conversation.next_seq
    chain_hash = hash_message(
        previous=conversation.head_hash,
        seq=seq,
        role=new.role,
        content=new.content,
        parts=new.parts,
        tool_calls=new.tool_calls,
        tool_call_id=new.tool_call_id,
    )
    row = Message.objects.create(
        conversation=conversation,
        seq=seq,
        turn=turn,
        role=new.role,
        content=new.content,
        parts=list(new.parts),
        tool_calls=list(new.tool_calls),
        tool_call_id=new.tool_call_id,
        artifact=new.artifact,
        status=new.status,
        run=run,
        token_count=tokens,
        tokenizer=counter.name,
        cumulative_tokens=conversation.total_tokens + tokens,
        chain_hash=chain_hash,
        metadata=dict(new.metadata),
    )
    conversation.next_seq = seq + 1
    conversation.next_turn = turn + 1
    conversation.head_hash = chain_hash
    conversation.total_tokens += tokens
    conversation.updated_at = row.created_at
    return row


def _value(new: NewMessage) -> ChatMessage:
    """The message as a model would be sent it, for counting."""
    if new.role == Message.Role.USER:
        return UserMessage(content=new.content, parts=parts_from_json(new.parts))
    if new.role == Message.Role.TOOL:
        return ToolMessage(content=new.content, tool_call_id=new.tool_call_id)
    return AssistantMessage(content=new.content, tool_calls=tool_calls_from_json(new.tool_calls))


def conversation_counters_save(conversation: Conversation, *, also: Sequence[str] = ()) -> None:
    """Write the end-of-transcript columns of a locked conversation, and ``also`` these."""
    conversation.save(
        update_fields=[
            *also,
            "next_seq",
            "next_turn",
            "head_hash",
            "total_tokens",
            "updated_at",
            "last_input_tokens",
        ]
    )
