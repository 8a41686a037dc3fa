"""A better title than the derived one: a model is asked for it once, after the first turn.

What it says is only ever a title. Without a model that answers, the derived title stays; a person's own is never replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction

from agentx.errors import ModelError
from agentx.llm.client import ChatModel
from agentx.llm.completion import Completion, complete
from agentx.llm.messages import ChatMessage, SystemMessage, UserMessage
from agentx.llm.routes import ModelRoute
from agentx.llm.tokens import default_counter
from agentx.model_routes import role_routes, route_health, route_model
from conversations.contracts import CallUsage
from conversations.models import Conversation, Message, ModelCall, Run
from conversations.selectors.model_profiles import profile_read
from conversations.selectors.snapshot import live_messages
from conversations.services.metering import model_calls_store, price_calls
from conversations.services.notices import notice_on_commit
from conversations.titles import TITLE_INSTRUCTION, clean_title, quote_message

log = structlog.get_logger(__name__)

# What a title and the thoughts before it may take: RUN-32.
OUTPUT_TOKENS = 256
TIMEOUT_SECONDS = 60.0


def title_write(*, conversation_id: UUID) -> bool:
    """Ask for a title where it is time for that; whether there is a new one. At most once for each conversation."""
    question = _question_take(conversation_id)
    if question is None:
        return False
    messages = (
        SystemMessage(content=TITLE_INSTRUCTION),
        UserMessage(content=quote_message(question.content)),
    )
    taken: list[Completion] = []
    try:
        completion = asyncio.run(
            complete(
                routes=role_routes("fast_utility"),
                model_make=_model_make,
                health=route_health,
                messages=messages,
                max_output_tokens=OUTPUT_TOKENS,
                timeout=TIMEOUT_SECONDS,
                record=taken.append,
            )
        )
    except ModelError as error:
        log.warning("title_not_written", conversation_id=str(conversation_id), error=error.code)
        return False
    finally:
        _meter(conversation_id, owner_id=question.conversation.owner_id, taken=taken, messages=messages)
    return _title_store(conversation_id, clean_title(completion.text), question)


def _question_take(conversation_id: UUID) -> Message | None:
    """The first message, once any turn has been answered, for the one caller that gets to ask about it."""
    if not settings.TITLES_BY_MODEL:
        return None
    waiting = Conversation.objects.filter(
        pk=conversation_id, title_source=Conversation.TitleSource.DERIVED, title_asked=False
    )
    if not waiting.exists() or _is_bundled(role_routes("fast_utility")[0]):
        return None
    asked = live_messages(conversation_id=conversation_id).filter(role=Message.Role.USER)
    question = asked.select_related("conversation").order_by("seq").first()
    answered = Run.objects.filter(user_message__in=asked, status=Run.Status.COMPLETED).exists()
    if question is None or not answered or not waiting.update(title_asked=True):
        return None
    return question


def _is_bundled(route: ModelRoute) -> bool:
    """The bundled model is too small to name anything: the rule does better."""
    return profile_read(model=route.model, reported_window=None).hosting == "bundled"


def _title_store(conversation_id: UUID, title: str, question: Message) -> bool:
    if not title:
        log.info("title_not_usable", conversation_id=str(conversation_id))
        return False
    with transaction.atomic():
        still = Conversation.objects.select_for_update().filter(
            pk=conversation_id, title_source=Conversation.TitleSource.DERIVED, title_asked=True
        )
        # Deleted while the model was asked: then the title would be a copy of its words.
        if (
            not still.exists()
            or not live_messages(conversation_id=conversation_id).filter(pk=question.pk).exists()
        ):
            return False
        still.update(title=title, title_source=Conversation.TitleSource.MODEL)
        notice_on_commit(kind="titled", conversation_id=conversation_id)
    return True


def _model_make(route: ModelRoute) -> ChatModel:
    return route_model(route, read_timeout=TIMEOUT_SECONDS, max_connections=1)


def _meter(
    conversation_id: UUID, *, owner_id: int, taken: Sequence[Completion], messages: Sequence[ChatMessage]
) -> None:
    """A title is paid for whether it can be used or not, and whether there is still a conversation to use it for."""
    if not taken:
        return
    counter = default_counter()
    estimated = sum(counter.count_message(message) for message in messages)
    calls = [
        CallUsage(
            call_index=index,
            model=completion.route.model,
            prompt_tokens=completion.usage.prompt_tokens,
            cached_tokens=completion.usage.cached_tokens,
            output_tokens=completion.usage.output_tokens,
            reasoning_tokens=completion.usage.reasoning_tokens,
            estimated_prompt_tokens=estimated,
            first_token_ms=None,
            total_ms=completion.milliseconds,
            finish_reason=completion.finish_reason,
            provider=completion.route.host,
            base_url=completion.route.base_url,
            billed=completion.usage.cost,
        )
        for index, completion in enumerate(taken)
    ]
    model_calls_store(
        priced=price_calls(calls),
        user_id=owner_id,
        conversation_id=conversation_id if Conversation.objects.filter(pk=conversation_id).exists() else None,
        run_id=None,
        purpose=ModelCall.Purpose.TITLE,
    )
