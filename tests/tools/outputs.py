"""Runs with stored results, for tests of what reads and deletes them."""

from __future__ import annotations

import asyncio
import json
import re

from django.db import transaction

from agentx.llm.messages import ToolCall
from conversations.models import Conversation, Message, Run
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append
from tests.conversations.talks import question_add
from tools.builtin.outputs import OUTPUT_TOOLS
from tools.contracts import Tool, ToolArguments, ToolContext, ToolResult
from tools.services.execute import call_execute
from tools.services.outputs import result_gate

TOOLS = {tool.name: tool for tool in OUTPUT_TOOLS}
SOURCE = Tool(
    name="source",
    description="Gives long results.",
    label="Reading",
    group="sample",
    arguments=ToolArguments,
    run=lambda _context, _arguments: ToolResult(content=""),
)


def run_begin(user) -> Run:
    """A run of a new conversation of this person that is asked something."""
    conversation = Conversation.objects.create(owner=user, title="t")
    return question_add(conversation_id=conversation.pk, question="What is in it?")


def context_of(run: Run, user) -> ToolContext:
    return ToolContext(
        user_id=user.pk, conversation_id=run.conversation_id, run_id=run.pk, turn=1, question="What is in it?"
    )


def store(run: Run, user, content: str, *, call_id: str = "call_1") -> str:
    """Put a long result through the gate; returns the id of what was stored."""
    gated = result_gate(
        result=ToolResult(content=content), tool=SOURCE, call_id=call_id, context=context_of(run, user)
    )
    return output_id_in(gated.content)


def output_id_in(text: str) -> str:
    found = re.search(r"out_[a-z0-9]{12}", text)
    assert found is not None, text[:300]
    return found[0]


def step_store(run: Run, result: ToolResult, *, call_id: str = "call_1") -> Message:
    """The message of a result, as a step stores it."""
    with transaction.atomic():
        conversation = Conversation.objects.select_for_update().get(pk=run.conversation_id)
        call = {"id": call_id, "name": "source", "label": "Reading", "arguments": "{}"}
        message_append(
            conversation=conversation,
            new=NewMessage(role=Message.Role.ASSISTANT, content="", tool_calls=[call]),
            turn=1,
            run=run,
        )
        message = message_append(
            conversation=conversation,
            new=NewMessage(
                role=Message.Role.TOOL,
                content=result.content,
                tool_call_id=call_id,
                artifact=result.artifact,
                metadata={"model_context": result.model_context} if result.model_context else {},
            ),
            turn=1,
            run=run,
        )
        conversation_counters_save(conversation)
    return message


def run_end(run: Run) -> None:
    run.status, run.final_seq = Run.Status.COMPLETED, 1
    run.save()


def call(name: str, context: ToolContext, **arguments: object) -> ToolResult:
    """What a model gets that calls one of the four tools."""
    asked = ToolCall("1", name, json.dumps(arguments))
    return asyncio.run(call_execute(call=asked, tools=TOOLS, context=context)).result
