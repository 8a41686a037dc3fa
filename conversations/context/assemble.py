"""The view of one model call, from a snapshot. Pure: the same snapshot gives the same bytes."""

from __future__ import annotations

from agentx.llm.messages import AssistantMessage, ChatMessage, SystemMessage, UserMessage
from conversations.context.budget import derive_budget
from conversations.context.types import (
    Action,
    Allocation,
    Grant,
    QuestionDoesNotFit,
    Snapshot,
    TokenCounter,
    TranscriptMessage,
    View,
)


def assemble_view(*, snapshot: Snapshot, counter: TokenCounter) -> View:
    """System prompt, then whole turns from the newest back while they fit, then the question.

    Raises :class:`QuestionDoesNotFit` when system prompt and question alone exceed the budget: a question is never cut.
    """
    budget = derive_budget(window=snapshot.window, rules=snapshot.rules)
    system = SystemMessage(content=snapshot.system_prompt)
    system_tokens = counter.count_message(system)
    question_tokens = snapshot.question.tokens
    room = budget.tokens - system_tokens - question_tokens
    if room < 0:
        raise QuestionDoesNotFit(question=question_tokens, system=system_tokens, budget=budget.tokens)

    kept = select_newest_turns(history=snapshot.history, room=room)
    asked = sum(message.tokens for message in snapshot.history)
    granted = sum(message.tokens for message in kept)
    kept_turns = len({message.turn for message in kept})
    dropped_turns = snapshot.turns_before - kept_turns
    sent = [
        render_message(message) for message in kept if message.content.strip()
    ]  # providers refuse blank ones
    messages = (system, *sent, UserMessage(content=snapshot.question.content))
    allocation = Allocation(
        window=budget.window,
        budget=budget.tokens,
        used=system_tokens + granted + question_tokens,
        response=budget.response,
        tokenizer=counter.name,
        grants=(
            Grant(key="base_prompt", asked=system_tokens, granted=system_tokens, action="full"),
            Grant(
                key="history", asked=asked, granted=granted, action=grade_history(kept_turns, dropped_turns)
            ),
            Grant(key="question", asked=question_tokens, granted=question_tokens, action="full"),
        ),
        dropped_turns=dropped_turns,
        first_seq=kept[0].seq if kept else snapshot.question.seq,
    )
    return View(messages=messages, allocation=allocation)


def select_newest_turns(
    *, history: tuple[TranscriptMessage, ...], room: int
) -> tuple[TranscriptMessage, ...]:
    """The longest run of whole turns at the end of ``history`` whose tokens add up to at most ``room``.

    A turn whose first message was not loaded is not whole and is left out.
    """
    start = len(history)
    index, used = len(history), 0
    while index > 0:
        turn = history[index - 1].turn
        first = index
        while first > 0 and history[first - 1].turn == turn:
            first -= 1
        used += sum(message.tokens for message in history[first:index])
        if used > room or history[first].role != "user":
            break
        start = index = first
    return history[start:]


def render_message(message: TranscriptMessage) -> ChatMessage:
    """A stored message in the form in which it is sent."""
    if message.role == "user":
        return UserMessage(content=message.content)
    return AssistantMessage(content=message.content)


def grade_history(kept_turns: int, dropped_turns: int) -> Action:
    """The history's row of the allocation: what became of it as a whole."""
    if not dropped_turns:
        return "full"
    return "shrunk" if kept_turns else "dropped"
