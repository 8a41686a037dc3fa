"""Everything the view of a run is made of, read at one moment with a fixed number of queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import django.db
import structlog
from django.db.models import QuerySet

from agentx.llm.messages import ToolSchema
from agentx.llm.tokens import TokenCounter, default_counter
from conversations.context.budget import derive_budget
from conversations.context.layout import derive_recall_tokens
from conversations.context.prompt import BASE_PROMPT
from conversations.context.record import PREVIOUS_FIELDS, previous_call
from conversations.context.segments import covered_through
from conversations.context.stored import as_chat_message, parts_from_json, tool_calls_from_json
from conversations.context.types import (
    EpochState,
    ModelFacts,
    Passage,
    PreviousCall,
    Snapshot,
    TranscriptMessage,
)
from conversations.models import Conversation, Message
from conversations.selectors.digests import epoch_read, segments_read
from conversations.selectors.model_profiles import (
    budget_rules,
    conversation_ratio,
    model_read,
    planned_window,
)
from conversations.selectors.search import search_passages
from conversations.selectors.snapshot_rows import MessageRow, history_rows, previous_record, run_row

log = structlog.get_logger(__name__)

# More rows than this are never loaded, however short they are: the cost of a view must not grow with the conversation.
MAX_ROWS = 400
# Rows whose stored tokens add up to this many budgets are loaded at most: what settles is shortened before it is counted.
MOST_BUDGETS = 4
# Of the budget, what the schemas of tools may take: in a window of 2,048 tokens none are offered, in one of 4,096 recall is.
TOOLS_SHARE = 0.2

# What to offer a model that can call tools, given the messages in view before the turn and those of the turn.
Offer = Callable[[Sequence[TranscriptMessage], Sequence[TranscriptMessage]], tuple[ToolSchema, ...]]


@dataclass(frozen=True, slots=True)
class Substitute:
    """The model that answers for one that cannot be reached. ``reported_window``: what its own server says."""

    model: str
    reported_window: int | None = None


def offer_nothing(
    _history: Sequence[TranscriptMessage], _current: Sequence[TranscriptMessage]
) -> tuple[ToolSchema, ...]:
    """No tools at all."""
    return ()


def snapshot_load(
    *,
    run_id: UUID,
    reported_window: int | None = None,
    offer: Offer = offer_nothing,
    substitute: Substitute | None = None,
) -> Snapshot:
    """The snapshot of a run: its question, and the newest live messages after the cut.

    ``reported_window``: tokens the provider says its model takes, when it was asked. ``offer``: names the
    tools, if the model can call any. ``substitute``: the model that answers for the run's.
    """
    run = run_row(run_id=run_id)
    conversation = Conversation(
        id=run.conversation_id,
        epoch=run.epoch,
        revision=run.revision,
        calibration=run.calibration,
        calibration_calls=run.calibration_calls,
        calibration_model=run.calibration_model,
    )
    return conversation_snapshot(
        conversation=conversation,
        question=transcript_message(run.question),
        model=run.model,
        reported_window=reported_window,
        before=run.created_at,
        offer=offer,
        substitute=substitute,
    )


def conversation_snapshot(
    *,
    conversation: Conversation,
    question: TranscriptMessage,
    model: str,
    reported_window: int | None = None,
    before: datetime | None = None,
    offer: Offer = offer_nothing,
    substitute: Substitute | None = None,
) -> Snapshot:
    """The snapshot for a question that may not be stored yet, whose seq is then the next one.

    ``before``: when the question's run was created; the last call before it is what a provider has cached.
    """
    known = model_read(model=model, reported_window=reported_window)
    window = planned_window(known.profile)
    if (
        substitute is not None
    ):  # a smaller window limits the view; a larger one must not widen what it comes back to
        known = model_read(model=substitute.model, reported_window=substitute.reported_window)
        window = min(window, planned_window(known.profile))
    profile, rules = known.profile, budget_rules(known.profile)
    epoch = epoch_read(conversation_id=conversation.pk, number=conversation.epoch)
    if epoch.revision != conversation.revision:
        epoch = _epoch_after_edit(conversation, epoch)
    budget = derive_budget(window=window, rules=rules).tokens
    history, unloaded = _history_read(conversation.pk, epoch, question.seq, budget * MOST_BUDGETS)
    tools = offer(history, (question,)) if profile.tools else ()
    snapshot = Snapshot(
        system_prompt=BASE_PROMPT,
        history=history,
        current=(question,),
        model=ModelFacts(
            name=profile.name,
            window=window,
            strict_roles=profile.strict_roles,
            explicit_cache=profile.prompt_caching == "explicit",
            image_tokens=profile.image_tokens,
            calibration=conversation_ratio(known=known, conversation=conversation),
            stands_in=substitute is not None,
        ),
        rules=rules,
        unloaded=unloaded,
        revision=conversation.revision,
        tools=fit_tools(tools, budget=budget),
        epoch=epoch,
        previous=_previous_call(conversation.pk, before, profile.name),
    )
    return replace(snapshot, passages=passages_read(conversation_id=conversation.pk, snapshot=snapshot))


def fit_tools(tools: tuple[ToolSchema, ...], *, budget: int) -> tuple[ToolSchema, ...]:
    """As many of the tools as leave the words their room, the first ones first, so that it is the same ones each time."""
    counter = default_counter()
    while tools and counter.count_tools(tools) > budget * TOOLS_SHARE:
        tools = tools[:-1]
    return tools


def passages_read(*, conversation_id: UUID, snapshot: Snapshot) -> tuple[Passage, ...]:
    """What recall finds for the question in turns that have left the view; nothing while none has."""
    if not snapshot.epoch.cut_seq:
        return ()
    counter = view_counter(snapshot)
    try:
        return search_passages(
            conversation_id=conversation_id,
            query=snapshot.question.content,
            before_seq=snapshot.epoch.cut_seq + 1,
            max_tokens=derive_recall_tokens(snapshot=snapshot, counter=counter),
            counter=counter,
        )
    except (django.db.OperationalError, django.db.InterfaceError):
        raise  # the database is away: the whole snapshot waits for it
    except Exception as error:
        # An answer without excerpts is better than none. The type alone: messages of errors quote what was searched.
        log.error("recall_failed", error=type(error).__name__)
        return ()


def view_counter(snapshot: Snapshot) -> TokenCounter:
    """The counter for the view of a snapshot: the installation's, with what an image costs the model."""
    return default_counter().with_image_tokens(snapshot.model.image_tokens)


def live_messages(*, conversation_id: UUID) -> QuerySet[Message]:
    """The messages that are part of the conversation as it stands."""
    return Message.objects.filter(conversation_id=conversation_id, superseded_at=None, deleted_at=None)


def transcript_message(row: Message | MessageRow) -> TranscriptMessage:
    """A stored message as the engine sees it, counted anew where its count is another tokenizer's."""
    message = TranscriptMessage(
        id=row.id,
        seq=row.seq,
        turn=row.turn,
        role=cast(Any, row.role),
        content=row.content,
        tokens=row.token_count,
        parts=parts_from_json(row.parts),
        tool_calls=tool_calls_from_json(row.tool_calls),
        tool_call_id=row.tool_call_id,
        artifact=row.artifact,
        model_context=row.metadata.get("model_context"),
        excerpt=row.metadata.get("excerpt"),
        chain_hash=row.chain_hash,
        ok=row.metadata.get("ok") is not False,
    )
    counter = default_counter()
    if row.tokenizer == counter.name:
        return message
    return replace(message, tokens=counter.count_message(as_chat_message(message)))


def _epoch_after_edit(conversation: Conversation, epoch: EpochState) -> EpochState:
    """The epoch with its cut moved back to what valid segments still cover, so that what they lost is loaded."""
    covered = covered_through(segments_read(conversation_id=conversation.pk))
    if covered >= epoch.cut_seq:
        return epoch
    return replace(epoch, cut_seq=covered, covered_seq=covered, cut_message_id=None, blocks=())


def _history_read(
    conversation_id: UUID, epoch: EpochState, question_seq: int, most_tokens: int
) -> tuple[tuple[TranscriptMessage, ...], bool]:
    """The newest live messages after the cut, oldest first, and whether older ones had to stay unloaded."""
    rows, unloaded = history_rows(
        conversation_id=conversation_id,
        after_seq=epoch.cut_seq,
        before_seq=question_seq,
        most_rows=MAX_ROWS,
        most_tokens=most_tokens,
    )
    loaded = [transcript_message(row) for row in rows]
    if unloaded:  # the fragment of a turn whose beginning was not loaded belongs to what was not loaded
        # A message that was sent during a turn is a person's too, and begins none.
        turns = [None, *(item.turn for item in loaded)]
        begins = (
            index for index, item in enumerate(loaded) if item.role == "user" and item.turn != turns[index]
        )
        whole = next(begins, 0)
        loaded = loaded[whole:]
    return tuple(loaded), unloaded


def _previous_call(conversation_id: UUID, before: datetime | None, model: str) -> PreviousCall | None:
    record = previous_record(conversation_id=conversation_id, before=before, fields=PREVIOUS_FIELDS)
    return None if record is None else previous_call(record, model=model)
