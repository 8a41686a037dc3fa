"""Segments for what was never loaded: complete, once, whoever else is at it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from uuid import UUID, uuid4

import pytest
from django.db import connections

from conversations.context.segments import covered_through, hash_sources
from conversations.models import CompactionDigest, ContextEpoch, Conversation
from conversations.selectors.digests import segments_read
from conversations.selectors.snapshot import live_messages, transcript_message
from conversations.selectors.uncovered import conversations_uncovered
from conversations.services import coverage
from conversations.services.coverage import gap_cover
from conversations.tasks import after_turn_sweep, cover_gap
from tests.conversations.talks import question_add, run_view, talk_import, talk_turn

pytestmark = pytest.mark.django_db


@pytest.fixture
def imported(user, settings):
    """A conversation of 1,000 messages that came in whole, after its first turn."""
    settings.CONTEXT_WINDOW_TOKENS = 8_192
    conversation_id = talk_import(user_id=user.pk, turns=500)
    talk_turn(conversation_id=conversation_id, question="where were we?")
    return conversation_id


def _require_gapless(conversation_id: UUID) -> int:
    """One active list from seq 1 to the cut without gap or overlap, whose leaves vouch for live rows; its length."""
    active = segments_read(conversation_id=conversation_id)
    assert active[0].from_seq == 1
    assert all(one.through_seq + 1 == next_one.from_seq for one, next_one in pairwise(active))
    cut = Conversation.objects.get(pk=conversation_id).cut_seq
    assert active[-1].through_seq == cut == covered_through(active)
    live = [transcript_message(row) for row in live_messages(conversation_id=conversation_id).order_by("seq")]
    for leaf in CompactionDigest.objects.filter(conversation=conversation_id, level=0).exclude(
        status="invalid"
    ):
        sources = [row for row in live if leaf.from_seq <= row.seq <= leaf.through_seq]
        assert (leaf.source_hash, leaf.messages) == (hash_sources(sources), len(sources))
    return len(active)


def test_an_imported_conversation_is_covered_by_its_next_epoch(user, settings):
    settings.CONTEXT_WINDOW_TOKENS = 8_192
    conversation_id = talk_import(user_id=user.pk, turns=500)

    first = talk_turn(conversation_id=conversation_id, question="where were we?")
    cut = Conversation.objects.get(pk=conversation_id).cut_seq
    cover_gap.run(conversation_id=str(conversation_id))
    during = talk_turn(conversation_id=conversation_id, question="and then?")
    for _ in range(12):
        later = talk_turn(conversation_id=conversation_id, question="word " * 300)

    assert first.block("overflow_notice")
    assert first.snapshot.epoch.covered_seq == 0
    assert (during.snapshot.epoch.blocks, during.view.allocation.epoch) == (first.snapshot.epoch.blocks, 1)
    assert later.snapshot.epoch.number == 2
    assert later.snapshot.epoch.covered_seq == later.snapshot.epoch.cut_seq > cut
    assert later.block("overflow_notice") == ""
    assert "seq1x" in later.block("digest")
    _require_gapless(conversation_id)


def test_covering_says_how_many_and_is_idempotent(imported):
    conversation = Conversation.objects.get(pk=imported)

    counts = [gap_cover(conversation_id=imported) for _ in range(3)]

    rows = list(CompactionDigest.objects.order_by("pk").values_list("pk", "status"))
    assert counts == [conversation.cut_seq, 0, 0]
    assert {row.reason for row in CompactionDigest.objects.all()} == {"backfill"}
    assert _require_gapless(imported) <= 10
    assert gap_cover(conversation_id=imported) == 0
    assert list(CompactionDigest.objects.order_by("pk").values_list("pk", "status")) == rows
    assert Conversation.objects.get(pk=imported).epoch == conversation.epoch == ContextEpoch.objects.count()


def test_a_conversation_that_is_gone_or_has_no_cut_has_no_gap(user):
    short = talk_import(user_id=user.pk, turns=2)

    assert [gap_cover(conversation_id=pk) for pk in (short, uuid4())] == [0, 0]


@pytest.mark.parametrize("dies", [1, 2, 4])
def test_inv_7_a_crash_in_any_batch_keeps_the_batches_before_it(imported, monkeypatch, dies):
    """INV-7, and what is missing is found and done by the sweep."""
    monkeypatch.setattr(coverage, "BATCH_MESSAGES", 100)
    store, calls = coverage.segments_store, []

    def store_and_die(**given):
        calls.append(1)
        store(**given)
        if len(calls) == dies:
            raise KeyboardInterrupt

    monkeypatch.setattr(coverage, "segments_store", store_and_die)
    with pytest.raises(KeyboardInterrupt):
        gap_cover(conversation_id=imported)
    monkeypatch.setattr(coverage, "segments_store", store)
    reached = covered_through(segments_read(conversation_id=imported))
    waiting = conversations_uncovered()
    after_turn_sweep.run()

    assert reached == (dies - 1) * 100
    assert waiting == [imported]
    assert conversations_uncovered() == []
    _require_gapless(imported)


def test_batches_hold_whole_turns_and_a_turn_larger_than_a_batch_is_split(user, settings, monkeypatch):
    settings.CONTEXT_WINDOW_TOKENS = 8_192
    monkeypatch.setattr(coverage, "BATCH_MESSAGES", 7)
    conversation_id = talk_import(user_id=user.pk, turns=300, long_turn=range(11, 31))
    run_view(question_add(conversation_id=conversation_id, question="where were we?"))

    covered = gap_cover(conversation_id=conversation_id)

    assert covered == Conversation.objects.get(pk=conversation_id).cut_seq
    starts = list(
        CompactionDigest.objects.filter(level=0).order_by("from_seq").values_list("from_seq", flat=True)
    )
    assert starts[:6] == [
        1,
        7,
        11,
        18,
        25,
        31,
    ]  # three turns of two, two turns, twenty messages of one, a turn
    _require_gapless(conversation_id)


def test_after_an_edit_the_next_epoch_decides_first(imported):
    Conversation.objects.filter(pk=imported).update(revision=1)

    assert gap_cover(conversation_id=imported) == 0
    assert conversations_uncovered() == []


@pytest.mark.django_db(transaction=True)
def test_inv_7_twenty_workers_and_a_turn_that_cuts_leave_one_gapless_list(user, settings, monkeypatch):
    """INV-7: 20 workers, one list."""
    settings.CONTEXT_WINDOW_TOKENS = 8_192
    monkeypatch.setattr(coverage, "BATCH_MESSAGES", 100)
    conversation_id = talk_import(user_id=user.pk, turns=500)
    talk_turn(conversation_id=conversation_id, question="where were we?")

    def cover() -> int:
        try:
            return gap_cover(conversation_id=conversation_id)
        finally:
            connections.close_all()

    def talk() -> int:
        try:
            for _ in range(20):
                asked = talk_turn(conversation_id=conversation_id, question="word " * 400)
            return asked.snapshot.epoch.number
        finally:
            connections.close_all()

    with ThreadPoolExecutor(7) as pool:  # a process has at most eight connections
        talking = pool.submit(talk)
        working = [pool.submit(cover) for _ in range(20)]
        epochs = talking.result(120)
        covered = sum(work.result(120) for work in working)
    covered += gap_cover(conversation_id=conversation_id)

    assert epochs > 2
    assert covered <= Conversation.objects.get(pk=conversation_id).cut_seq
    _require_gapless(conversation_id)
