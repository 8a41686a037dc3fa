"""Known failure 11: an edit anywhere in a conversation takes its words out of everything that is derived from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction

from agentx.errors import NotFound, RunActive
from conversations.context.segments import Segment
from conversations.models import (
    CompactionDigest,
    ContextEpoch,
    Conversation,
    EvidenceLedger,
    Message,
    MessageEntry,
    Run,
)
from conversations.selectors.digests import segments_read
from conversations.services.conversations import conversation_delete
from conversations.services.edits import messages_delete, messages_supersede
from conversations.services.epochs import segments_store
from conversations.tasks import after_turn
from conversations.titles import derive_title
from tests.conversations.talks import Asked, question_add, run_view, talk_turn

pytestmark = pytest.mark.django_db

TURNS = 12
_FILLER = "plain filler words about nothing " * 42


def _question(turn: int) -> str:
    return f"You must always keep wordq{turn}x in mind, we decided. {_FILLER}"


def _answer(turn: int) -> str:
    return f"Agreed, worda{turn}x is decided and still open to do. {_FILLER}"


@pytest.fixture
def talk(user, settings) -> UUID:
    """A conversation of twelve turns with two cuts, whose derived data is up to date."""
    settings.CONTEXT_WINDOW_TOKENS = 4_096
    conversation = Conversation.objects.create(owner=user, title="t")
    for turn in range(1, TURNS + 1):
        talk_turn(conversation_id=conversation.pk, question=_question(turn), answer=_answer(turn))
        after_turn.run(conversation_id=str(conversation.pk))
    conversation.refresh_from_db()
    assert conversation.compactions >= 2
    return conversation.pk


def _words(first: int, last: int = 2 * TURNS) -> list[str]:
    """The word that each message of a range of seqs has for itself."""
    return [f"word{'q' if seq % 2 else 'a'}{(seq + 1) // 2}x" for seq in range(first, last + 1)]


def _require_covered(conversation_id: UUID, asked: Asked) -> None:
    """INV-3: every live message is in view or covered by one gapless list of segments."""
    epoch = asked.snapshot.epoch
    live = Message.objects.filter(conversation=conversation_id, superseded_at=None, deleted_at=None)
    before = live.filter(seq__lt=asked.snapshot.question.seq).values_list("seq", flat=True)
    seen = {item.message.seq for item in asked.view.history}
    lost = [seq for seq in before if seq not in seen and seq > epoch.covered_seq]
    active = segments_read(conversation_id=conversation_id)
    assert lost == []
    assert all(one.through_seq + 1 == other.from_seq for one, other in pairwise(active))
    assert not active or active[0].from_seq == 1
    assert not any(segment.through_seq > epoch.cut_seq for segment in active)


@contextmanager
def _undone() -> Iterator[None]:
    """What happens within has not happened afterwards."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def test_an_edit_at_every_position_leaves_no_word_of_what_it_took_out(talk):
    """Known failure 11; INV-3."""
    for from_seq in range(1, 2 * TURNS + 1):
        with _undone():
            taken = messages_supersede(conversation_id=talk, from_seq=from_seq, reason="edit")
            asked = talk_turn(conversation_id=talk, question="What did we decide, what must be kept in mind?")

            withdrawn, sent = _words(from_seq), asked.text
            derived = " ".join(segment.text for segment in segments_read(conversation_id=talk))
            assert taken == 2 * TURNS - from_seq + 1
            assert [word for word in withdrawn if word in sent or word in derived] == []
            assert asked.snapshot.epoch.reason == "edit"
            _require_covered(talk, asked)


def test_the_ledger_and_the_index_follow_an_edit(talk):
    for from_seq in (3, 12, 20):
        with _undone():
            messages_supersede(conversation_id=talk, from_seq=from_seq, reason="regenerate")
            after_turn.run(conversation_id=str(talk))

            ledger = EvidenceLedger.objects.get(pk=talk)
            assert [word for word in _words(from_seq) if word in json.dumps(ledger.buckets)] == []
            assert ledger.revision == 1
            assert sorted(MessageEntry.objects.values_list("seq", flat=True)) == list(range(1, from_seq))


def test_rows_are_marked_and_not_rewritten_and_what_is_already_gone_is_left_alone(talk):
    before = list(Message.objects.order_by("seq").values_list("content", "chain_hash"))

    counts = [messages_supersede(conversation_id=talk, from_seq=20, reason="edit") for _ in range(2)]

    assert counts == [5, 0]
    assert list(Message.objects.order_by("seq").values_list("content", "chain_hash")) == before
    assert Message.objects.filter(superseded_at=None).count() == 19
    assert Conversation.objects.get(pk=talk).revision == 1


def test_edits_again_and_again_keep_everything_covered(talk):
    for from_seq in (21, 15, 15, 9, 5, 2):
        messages_supersede(conversation_id=talk, from_seq=from_seq, reason="edit")
        for _ in range(3):
            asked = talk_turn(conversation_id=talk, question=_FILLER * 2, answer=_FILLER)
            _require_covered(talk, asked)

    assert asked.snapshot.revision == 6


def _segment(level: int, first: int, last: int) -> Segment:
    return Segment(level, first, last, first, last, f"{level}:{first}", "mechanical", "v", "t", (), 9, 99, 1)


@pytest.mark.parametrize(
    ("from_seq", "standing"),
    [
        (41, [(1, 32), (33, 36), (37, 40)]),
        (40, [(1, 32), (33, 36)]),
        (33, [(1, 32)]),
        (32, [(1, 8), (9, 16), (17, 24), (25, 28)]),
        (20, [(1, 8), (9, 16)]),
        (9, [(1, 8)]),
        (8, [(1, 4)]),
        (1, []),
    ],
)
def test_when_a_parent_is_void_its_children_below_the_edit_stand_again(user, from_seq, standing):
    row = Conversation.objects.create(owner=user, next_seq=42)
    for seq in range(1, 42):
        Message.objects.create(
            conversation=row,
            seq=seq,
            turn=seq,
            role="user",
            content="x",
            token_count=1,
            tokenizer="t",
            cumulative_tokens=seq,
            chain_hash="",
        )
    leaves = [_segment(0, first, first + 3) for first in range(1, 41, 4)]
    parents = [_segment(1, first, first + 7) for first in range(1, 33, 8)]
    top = _segment(2, 1, 32)
    segments_store(
        conversation_id=row.pk,
        made=(*leaves, *parents, top),
        merged=(*leaves[:8], *parents),
        reason=CompactionDigest.Reason.JIT,
    )

    messages_supersede(conversation_id=row.pk, from_seq=from_seq, reason="edit")

    active = segments_read(conversation_id=row.pk)
    assert [(segment.from_seq, segment.through_seq) for segment in active] == standing


def test_while_an_answer_is_written_nothing_is_taken_out(talk):
    question_add(conversation_id=talk, question="hello")

    for edit in (
        lambda: messages_supersede(conversation_id=talk, from_seq=1, reason="edit"),
        lambda: messages_delete(conversation_id=talk, seqs=[1]),
    ):
        with pytest.raises(RunActive):
            edit()
    with pytest.raises(NotFound):
        messages_supersede(conversation_id=uuid4(), from_seq=1, reason="edit")

    assert Message.objects.exclude(superseded_at=None, deleted_at=None).count() == 0


def _everything_but_messages() -> str:
    """Every stored value of the conversations' tables, but for the transcript itself."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table.startswith("conversations_") and table != "conversations_message":
                cursor.execute(f"SELECT coalesce(string_agg(t::text, ' '), '') FROM {table} t")
                found.append(cursor.fetchone()[0])
    return "\n".join(found)


def test_deleted_words_are_nowhere_but_in_the_marked_row(talk):
    for turn in (1, 4, 8, 12):
        with _undone():
            talk_turn(conversation_id=talk, question=f"What about wordq{turn}x and worda{turn}x?")
            Conversation.objects.filter(pk=talk).update(title=derive_title(_question(turn)))
            before = _everything_but_messages()

            asking = 2 * TURNS + 1  # this names the words, too
            deleted = messages_delete(conversation_id=talk, seqs=[2 * turn - 1, 2 * turn, asking])

            after = _everything_but_messages()
            assert deleted == 3
            assert f"wordq{turn}x" in before
            assert [word for word in (f"wordq{turn}x", f"worda{turn}x") if word in after] == []
            assert Message.objects.get(conversation=talk, seq=2 * turn).content == _answer(turn)
            assert Conversation.objects.get(pk=talk).title == ""


def test_a_run_that_recalled_a_deleted_message_forgets_its_words(talk):
    talk_turn(conversation_id=talk, question="What about worda2x?")
    run = Run.objects.order_by("-created_at").first()
    assert "worda2x" in run.view["tail"]

    messages_delete(conversation_id=talk, seqs=[4])

    run.refresh_from_db()
    assert run.view["tail"] == ""
    assert run.view["recalled"] != []


def test_after_a_deletion_the_next_turn_is_whole_and_silent_about_it(talk):
    messages_delete(conversation_id=talk, seqs=[5, 6, 17])
    after_turn.run(conversation_id=str(talk))

    asked = talk_turn(conversation_id=talk, question="What did we decide about wordq4x?")
    after_turn.run(conversation_id=str(talk))

    stored = _everything_but_messages()
    gone = ["wordq3x", "worda3x", "wordq9x"]
    assert asked.snapshot.epoch.reason == "edit"
    assert [word for word in gone if word in asked.text or word in stored] == []
    assert "wordq4x" in asked.text
    _require_covered(talk, asked)


def test_deleting_what_is_still_in_view_leaves_older_segments_and_epochs_as_they_are(talk):
    blocks = list(ContextEpoch.objects.order_by("number").values_list("blocks", flat=True))
    segments = segments_read(conversation_id=talk)

    messages_delete(conversation_id=talk, seqs=[2 * TURNS])

    assert list(ContextEpoch.objects.order_by("number").values_list("blocks", flat=True)) == blocks
    assert segments_read(conversation_id=talk) == segments
    asked = run_view(question_add(conversation_id=talk, question="go on"))
    assert "worda12x" not in asked.text
    _require_covered(talk, asked)


def test_sta_24_a_deleted_conversation_leaves_nothing_that_was_derived_from_it(talk, user):
    """STA-24."""
    tables = (Message, MessageEntry, CompactionDigest, ContextEpoch, EvidenceLedger, Run)
    before = [table.objects.filter(conversation=talk).exists() for table in tables]

    conversation_delete(user_id=user.pk, conversation_id=talk)

    assert before == [True] * len(tables)
    assert [table.objects.filter(conversation=talk).exists() for table in tables] == [False] * len(tables)
