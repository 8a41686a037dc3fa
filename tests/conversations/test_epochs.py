"""Epochs on the real database, one after another and many at once, and the requests that a model server receives."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pytest
from django.db import IntegrityError, connection, connections

from agentx.llm.tokens import default_counter
from agentx.threads import in_db_thread
from conversations.context.assemble import assemble_view
from conversations.models import CompactionDigest, ContextEpoch, Conversation, Message, ModelRecord, Run
from conversations.selectors.digests import segments_read
from conversations.selectors.snapshot import snapshot_load
from conversations.services.prepare import epoch_settle
from tests.conversations.talks import question_add, run_view, talk_import, talk_turn
from tests.scripted_model import scripts

_LONG = "word " * 300


# Stored


@pytest.mark.django_db
@pytest.mark.parametrize(
    "stored", [{"cursor": 3}, [], {"cursor": 1, "prefix_hash": "", "omitted": 0, "buckets": {}}]
)
def test_evidence_of_an_epoch_that_cannot_be_read_fails_no_turn(user, settings, caplog, stored):
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    conversation = Conversation.objects.create(owner=user, title="t")
    talk_turn(conversation_id=conversation.pk, question="You must always say wordkept.", answer=_LONG)
    while not Conversation.objects.get().cut_seq:
        talk_turn(conversation_id=conversation.pk, question=_LONG, answer=_LONG)
    ContextEpoch.objects.update(evidence=stored)
    epoch = Conversation.objects.get().epoch

    while Conversation.objects.get().epoch == epoch:
        asked = talk_turn(conversation_id=conversation.pk, question=_LONG, answer=_LONG)

    assert "wordkept" in asked.block("pinned_constraints")
    assert "epoch_evidence_damaged" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_cut_whose_messages_cannot_be_indexed_fails_no_turn(user, settings, caplog):
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    conversation_id = talk_import(user_id=user.pk, turns=100)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE conversations_messageentry ADD CONSTRAINT refused CHECK (false)")

    try:
        asked = talk_turn(conversation_id=conversation_id, question="and now?")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE conversations_messageentry DROP CONSTRAINT refused")

    assert asked.snapshot.epoch.cut_seq > 0
    assert "index_not_caught_up" in caplog.text
    assert "seq1x" not in caplog.text


@pytest.mark.django_db(transaction=True)
def test_many_that_begin_the_same_epoch_store_one(user, settings):
    """Known failure 31, INV-7: who comes second reads again and sees the very same bytes."""
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    conversation_id = talk_import(user_id=user.pk, turns=40)
    run = question_add(conversation_id=conversation_id, question="and now?")
    snapshot = snapshot_load(run_id=run.pk)

    def settle(_number: int) -> tuple[str, str]:
        try:
            settled = epoch_settle(conversation_id=conversation_id, snapshot=snapshot)
            if settled is None:
                again = snapshot_load(run_id=run.pk)
                settled = epoch_settle(conversation_id=conversation_id, snapshot=again)
                return "second", assemble_view(snapshot=settled, counter=default_counter()).request_hash
            return "first", assemble_view(snapshot=settled, counter=default_counter()).request_hash
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(settle, range(20)))

    assert [order for order, _ in found].count("first") == 1
    assert len({hashed for _, hashed in found}) == 1
    assert ContextEpoch.objects.count() == Conversation.objects.get().epoch == 1
    leaves = list(CompactionDigest.objects.filter(level=0).values_list("from_seq", "through_seq"))
    assert len(leaves) == len(set(leaves)) > 0


@pytest.mark.django_db(transaction=True)
def test_a_crash_before_the_epochs_row_leaves_the_old_epoch_as_it_was(user, settings):
    """Known failure 9."""
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    conversation_id = talk_import(user_id=user.pk, turns=4)
    talk_turn(conversation_id=conversation_id, question="first")
    before = Conversation.objects.values().get()
    for _ in range(12):
        last = question_add(conversation_id=conversation_id, question=_LONG)
        Run.objects.filter(pk=last.pk).update(status="failed", final_seq=1)
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE conversations_contextepoch ADD CONSTRAINT refused CHECK (false) NOT VALID"
        )
    try:
        with pytest.raises(IntegrityError):
            run_view(last)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE conversations_contextepoch DROP CONSTRAINT refused")

    after = Conversation.objects.values().get()
    unchanged = ("epoch", "cut_seq", "cut_message_id", "settled_seq", "compactions")
    assert [after[key] for key in unchanged] == [before[key] for key in unchanged]
    assert not CompactionDigest.objects.exists()
    assert run_view(last).snapshot.epoch.number == 2


@pytest.mark.django_db
def test_inv_3_after_ten_cuts_digest_and_view_hold_every_message(user, settings):
    """Known failure 10, INV-3."""
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    conversation_id = talk_import(user_id=user.pk, turns=1)

    while Conversation.objects.get().compactions < 10:
        asked = talk_turn(conversation_id=conversation_id, question=_LONG, answer=_LONG)
        epoch = asked.snapshot.epoch
        seen = {item.message.seq for item in asked.view.history}
        before = Message.objects.filter(seq__lt=asked.snapshot.question.seq).values_list("seq", flat=True)
        assert [seq for seq in before if seq > epoch.covered_seq and seq not in seen] == []
        assert epoch.covered_seq == epoch.cut_seq
        active = segments_read(conversation_id=conversation_id)
        assert all(one.through_seq + 1 == other.from_seq for one, other in pairwise(active))


@pytest.mark.django_db
def test_a_turn_that_is_tried_again_neither_cuts_nor_summarizes_again(user, settings):
    """Known failures 16, 20 and 32."""
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    conversation_id = talk_import(user_id=user.pk, turns=40)
    run = question_add(conversation_id=conversation_id, question="and now?")

    views = [run_view(run).view for _ in range(3)]

    digests = CompactionDigest.objects.count()
    Run.objects.update(status="failed", final_seq=1)
    again = run_view(question_add(conversation_id=conversation_id, question="and now?"))
    assert len({view.request_hash for view in views}) == 1
    assert again.snapshot.epoch.number == ContextEpoch.objects.count() == 1
    assert CompactionDigest.objects.count() == digests > 0


@pytest.mark.django_db
def test_a_long_conversation_goes_on_with_a_small_model(user, settings):
    """Known failure 23: 200,000 tokens of history, then a window of 8,192."""
    settings.CONTEXT_WINDOW_TOKENS = 400_000
    settings.LLM_MODEL = "large"
    settings.PROMPT_BUDGET_TOKENS = 0
    conversation_id = talk_import(user_id=user.pk, turns=140, words=800)
    large = talk_turn(conversation_id=conversation_id, question="with the large one")

    settings.CONTEXT_WINDOW_TOKENS, settings.LLM_MODEL = 8_192, "small"
    small = talk_turn(conversation_id=conversation_id, question="and with the small one?")
    after = talk_turn(conversation_id=conversation_id, question="still there?")

    assert (large.snapshot.epoch.cut_seq, large.view.allocation.used > 100_000) == (0, True)
    assert Conversation.objects.get().total_tokens > 200_000
    assert small.snapshot.epoch.reason == "model"
    assert small.view.allocation.used <= small.view.allocation.budget < 8_192
    assert after.snapshot.epoch.number == small.snapshot.epoch.number
    assert "still there?" in after.text


@pytest.mark.django_db
def test_what_is_said_later_leaves_every_segment_valid(user, settings):
    """Known failure 33."""
    settings.CONTEXT_WINDOW_TOKENS = 8_192
    conversation_id = talk_import(user_id=user.pk, turns=60)
    talk_turn(conversation_id=conversation_id, question="first")
    before = segments_read(conversation_id=conversation_id)

    for _ in range(8):
        asked = talk_turn(conversation_id=conversation_id, question=_LONG, answer=_LONG)

    stored = CompactionDigest.objects.values_list("from_seq", "through_seq", "source_hash", "status")
    assert asked.snapshot.epoch.number >= 2
    assert {segment.anchor for segment in before} <= {row[:3] for row in stored}
    assert {row[3] for row in stored} <= {"active", "merged"}


# As the model server receives it


def _texts(request: dict) -> list[str]:
    return [json.dumps(message, sort_keys=True) for message in request["messages"]]


async def _runs() -> list[Run]:
    return await in_db_thread(lambda: list(Run.objects.order_by("created_at")))


@pytest.mark.django_db(transaction=True)
async def test_inv_2_between_two_epochs_every_request_extends_the_one_before(
    runner, turns, scripted, settings
):
    """INV-2, known failures 3 and 27: thirty turns in a window of 2,048."""
    settings.CONTEXT_WINDOW_TOKENS = 2_048

    for number in range(30):
        await turns.say(f"Question number {number} about item {number % 7}. " + "word " * 40)

    runs = await _runs()
    epochs = [run.view["epoch"] for run in runs]
    for (one, sent), (other, then) in pairwise(zip(runs, scripted.requests, strict=True)):
        if one.view["epoch"] == other.view["epoch"]:
            stable = _texts(sent)[: -2 if one.view["tail"] else -1]
            assert _texts(then)[: len(stable)] == stable
        else:
            assert _texts(then)[0] == _texts(sent)[0]
    assert {run.status for run in runs} == {"completed"}
    assert all(run.allocation["used"] <= run.allocation["budget"] for run in runs)
    assert 3 <= epochs[-1] <= 10
    roles = [[message["role"] for message in request["messages"]] for request in scripted.requests]
    assert all(sent[0] == "system" and sent[-1] == "user" and "tool" not in sent for sent in roles)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("refusals", "status"), [(1, "completed"), (2, "completed"), (3, "failed")])
async def test_cmp_15_a_refused_request_is_made_smaller_twice(
    runner, turns, scripted, settings, refusals, status
):
    """CMP-15."""
    for _ in range(6):
        await turns.say("word " * 800)
    sent_before = len(scripted.requests)
    for window in (5_000, 4_000, 3_000)[:refusals]:
        scripted.script(scripts.overflow(window=window, prompt_tokens=window * 2))

    await turns.say("and now?")

    run = (await _runs())[-1]
    requests = scripted.requests[sent_before:]
    sizes = [len(json.dumps(request["messages"])) for request in requests]
    record = await in_db_thread(ModelRecord.objects.get)
    question = await in_db_thread(lambda: Message.objects.get(pk=run.user_message_id))
    assert (run.status, len(requests)) == (status, min(refusals + 1, 3))
    assert sizes == sorted(set(sizes), reverse=True)
    assert all("and now?" in _texts(request)[-1] for request in requests)
    assert record.learned_window == (5_000, 4_000, 4_000)[refusals - 1]
    assert (question.content, question.superseded_at, question.deleted_at) == ("and now?", None, None)
    assert (run.error or {}).get("code") == (None if status == "completed" else "context_overflow")


@pytest.mark.django_db(transaction=True)
async def test_a_refusal_that_names_no_window_teaches_none(runner, turns, scripted):
    for _ in range(4):
        await turns.say("word " * 4_000)
    sent_before = len(scripted.requests)
    refusal = scripts.overflow(window=1, prompt_tokens=2)
    scripted.script(replace(refusal, body=refusal.body.replace("length is 1 tokens", "length is exceeded")))

    await turns.say("and now?")

    run = (await _runs())[-1]
    assert (run.status, len(scripted.requests) - sent_before) == ("completed", 2)
    assert run.allocation["window"] < 32_768
    record = await in_db_thread(ModelRecord.objects.first)
    assert record.learned_window is None


@pytest.mark.django_db(transaction=True)
async def test_what_cannot_fit_is_not_sent_and_every_block_is_named(runner, turns, scripted, settings):
    settings.CONTEXT_WINDOW_TOKENS = 400

    await turns.say("word " * 250)

    run = (await _runs())[0]
    needs = run.error["details"]["needs"]
    assert (run.error["code"], run.error["details"]["largest"], run.error["details"]["budget"]) == (
        "does_not_fit",
        "question",
        275,
    )
    assert set(needs) >= {"base_prompt", "question"}
    assert sum(needs.values()) > 275
    assert scripted.requests == []
    assert await in_db_thread(Message.objects.filter(superseded_at=None, deleted_at=None).count) == 1


@pytest.mark.django_db(transaction=True)
async def test_ctx_32_the_end_of_a_turn_and_its_answer_tell_the_same_use(runner, turns, scripted, settings):
    """CTX-32."""
    settings.CONTEXT_WINDOW_TOKENS = 2_048
    for number in range(14):
        events = await turns.say(f"Question {number}. " + "word " * 60)

    done = next(event["data"] for event in events if event["type"] == "done")
    answer = await in_db_thread(Message.objects.order_by("-seq").first)
    run = (await _runs())[-1]
    assert done["context"] == answer.metadata["context"]
    assert done["context"] == {
        "used": run.allocation["used"],
        "window": 2_048,
        "summarized": True,
        "dropped_turns": run.allocation["dropped_turns"],
    }
    assert done["context"]["dropped_turns"] > 0
