"""The exact count of a request, where a server gives it, decides about the cut; where it fails, the estimate does."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.db import connection

from agentx.threads import in_db_thread
from conversations.models import Conversation
from conversations.services.view import Prepared, view_prepare
from tests.conversations.conftest import Turns
from tests.conversations.talks import question_add, talk_import, talk_turn

pytestmark = pytest.mark.django_db(transaction=True)

WINDOW = 16_384
_LONG = "word " * 1_600


@pytest.fixture(autouse=True)
def _window(settings) -> None:
    settings.CONTEXT_WINDOW_TOKENS = WINDOW


class Counter:
    """A server that counts ``factor`` times the words' tokens, or fails."""

    def __init__(self, factor: float | None) -> None:
        self.factor, self.asked = factor, 0

    async def count_request(self, *, messages, tools=()) -> int | None:
        self.asked += 1
        words = sum(len(message.content.split()) for message in messages)
        return None if self.factor is None else round(words * self.factor)

    async def aclose(self) -> None: ...


def _prepare(user, counter: Counter, *, turns: int) -> Prepared:
    """The view of a question after ``turns`` turns of about 3,200 tokens, for a server that says what its window is."""
    conversation = Conversation.objects.create(owner=user, title="t")
    for _ in range(turns):
        talk_turn(conversation_id=conversation.pk, question=_LONG, answer=_LONG)
    run = question_add(conversation_id=conversation.pk, question="and now?")
    return async_to_sync(view_prepare)(
        run_id=run.pk,
        conversation_id=conversation.pk,
        reported_window=WINDOW,
        request_counter=counter,
    )


@pytest.mark.parametrize(("factor", "cut"), [(1.0, False), (2.0, True)])
def test_ctx_14_an_exact_count_decides_about_the_cut(user, factor, cut):
    """CTX-14: the same conversation, and a server whose tokenizer makes twice the tokens."""
    counter = Counter(factor)

    prepared = _prepare(user, counter, turns=3)

    assert counter.asked == 1
    assert (prepared.snapshot.epoch.cut_seq > 0) == cut
    assert prepared.view.allocation.calibration == pytest.approx(factor, rel=0.05)
    assert prepared.view.allocation.budget == WINDOW - 4_096 - 256


def test_ctx_14_a_count_that_fails_leaves_the_estimate_and_its_reserve(user):
    """CTX-14."""
    counter = Counter(None)

    prepared = _prepare(user, counter, turns=3)

    assert counter.asked == 1
    assert prepared.snapshot.epoch.cut_seq == 0
    assert prepared.view.allocation.calibration == 1
    assert prepared.view.allocation.budget == WINDOW - 4_096 - 1_024


async def test_a_search_that_fails_costs_the_excerpts_and_not_the_answer(
    runner, scripted, settings, make_user
):
    """Known failure of many engines: what is optional must not fail the turn."""
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    user = await in_db_thread(make_user)
    talk = await in_db_thread(talk_import, user_id=user.pk, turns=60)
    turns = Turns(user.pk, talk)
    await turns.say("What does message seq3x say?")  # begins the epoch that cuts

    await in_db_thread(_rename_column, old="words", new="away")
    try:
        events = await turns.say("And what does message seq5x say?")
    finally:
        await in_db_thread(_rename_column, old="away", new="words")

    assert next(event for event in events if event.get("type") == "done")["data"]["status"] == "completed"
    context = next(event["data"] for event in events if event.get("type") == "context")
    assert context["recalled_turns"] == []
    assert "recall" not in [block["key"] for block in context["blocks"]]


def _rename_column(*, old: str, new: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE conversations_messageentry RENAME COLUMN {old} TO {new}")
