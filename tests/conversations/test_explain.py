"""What the model saw, read back: exactly what was sent, no matter what has happened since, and nothing that was deleted."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.utils import timezone

from agentx.errors import Conflict, NotFound
from agentx.llm.messages import ImagePart, UserMessage
from conversations.context.render import canonical_request
from conversations.models import (
    CompactionDigest,
    ContextEpoch,
    Conversation,
    EvidenceLedger,
    Message,
    MessageEntry,
    ModelRecord,
    Run,
)
from conversations.selectors.explain import MOST_FATES, run_context, run_find
from conversations.selectors.rebuild import dump_request
from conversations.services.cancel import run_cancel
from conversations.services.conversations import conversation_create
from conversations.services.preview import context_preview
from conversations.services.submit import turn_submit
from conversations.services.transcript import NewMessage, conversation_counters_save, message_append
from tests.conversations.answered import after_turn, long_talk, turn_answer

pytestmark = pytest.mark.django_db
RECALLING = "What was the name of the boat, Albatross or something else?"


@pytest.fixture(autouse=True)
def _small_model(settings):
    """A window in which seven turns do not fit."""
    settings.LLM_MODEL = "scripted"
    settings.CONTEXT_WINDOW_TOKENS = 4_096


@pytest.fixture
def conversation_id(user):
    return conversation_create(user_id=user.pk).id


@pytest.fixture
def talk(user, conversation_id):
    """Turns through several epochs, the last of which recalls the first."""
    told = long_talk(user_id=user.pk, conversation_id=conversation_id)
    return [*told, turn_answer(user_id=user.pk, conversation_id=conversation_id, question=RECALLING)]


def _withdraw(conversation_id, *, how: str, seqs: list[int]) -> None:
    """As an edit does: rows marked, revision raised."""
    Message.objects.filter(conversation=conversation_id, seq__in=seqs).update(
        **{f"{how}_at": timezone.now() + timedelta(seconds=1)}
    )
    row = Conversation.objects.get(pk=conversation_id)
    Conversation.objects.filter(pk=conversation_id).update(revision=row.revision + 1)


def _state() -> list:
    tables = (
        *(Conversation, Message, Run, ContextEpoch, CompactionDigest, EvidenceLedger, MessageEntry),
        ModelRecord,
    )
    return [list(table.objects.order_by("pk").values()) for table in tables]


def test_ctx_08_the_stored_grants_sum_up_to_the_estimate_that_was_sent(talk):
    """CTX-08."""
    for run, view in talk:
        allocation = run_context(run=run).view.allocation

        assert sum(row.granted for row in allocation.rows) == allocation.used == view.allocation.used
        assert allocation.used <= allocation.budget
        assert allocation.window == 4_096


def test_every_request_of_a_conversation_is_rebuilt_byte_for_byte(talk):
    epochs = {run_context(run=run).view.epoch.number for run, _ in talk}
    assert len(epochs) >= 3, "the talk must have gone through several epochs"
    assert any(view.recalled for _, view in talk)

    for run, view in talk:
        request = run_context(run=run, request=True).request

        assert (request.rebuilt, request.reason) == ("identical", None)
        assert request.messages == canonical_request(messages=view.messages)


def test_settled_messages_are_rebuilt_in_their_shortened_form(user, conversation_id, settings):
    settings.CONTEXT_WINDOW_TOKENS = 8_192
    for number in range(1, 8):
        run, view = turn_answer(
            user_id=user.pk, conversation_id=conversation_id, question=f"Sample {number}. " + "cloth " * 900
        )
        if any(item.form == "shortened" for item in view.history):
            break

    body = run_context(run=run, request=True)

    shortened = [item for item in body.view.fates.ranges if "shortened" in item.fates]
    assert [item.from_seq for item in shortened] == [
        item.message.seq for item in view.history if item.form == "shortened"
    ]
    assert shortened
    assert body.request.rebuilt == "identical"


def test_a_request_of_merged_roles_is_rebuilt_as_well(user, conversation_id):
    ModelRecord.objects.create(model_id="scripted", strict_roles=True)
    talk = long_talk(user_id=user.pk, conversation_id=conversation_id)

    run, view = talk[-1]

    assert [message.role for message in view.messages[:3]] == ["system", "user", "assistant"]
    assert run_context(run=run, request=True).request.rebuilt == "identical"


def test_each_message_has_its_fate(talk):
    run, sent = talk[-1]

    view = run_context(run=run).view

    fates = {
        seq: set(item.fates)
        for item in view.fates.ranges
        for seq in range(item.from_seq, item.through_seq + 1)
    }
    shown = {item.message.seq for item in sent.history}
    recalled = {seq for passage in sent.recalled for seq in passage.seqs}
    assert sorted(fates) == list(range(1, view.question_seq))
    assert {seq for seq in fates if fates[seq] & {"verbatim", "shortened"}} == shown
    assert {seq for seq in fates if "recalled" in fates[seq]} == recalled == {1, 2, 3}
    assert {seq for seq in fates if "in_segment" in fates[seq]} == set(range(1, view.epoch.cut_seq + 1))
    assert "in_ledger" in fates[1]
    assert not view.fates.truncated


def test_blocks_segments_and_tail_are_shown_as_they_were(talk):
    run, sent = talk[-1]

    view = run_context(run=run).view

    context = sent.messages[1].content
    assert {block.key for block in view.blocks} >= {"pinned_constraints", "digest"}
    assert all(block.text and block.text in context for block in view.blocks)
    assert "must never exceed 4,200 euros" in next(
        block.text for block in view.blocks if block.key == "pinned_constraints"
    )
    assert view.tail == sent.tail != ""
    assert (view.segments[0].from_seq, view.segments[-1].through_seq) == (1, view.epoch.cut_seq)
    assert all(segment.text for segment in view.segments)


def test_segments_that_were_merged_since_are_shown_as_the_run_had_them(talk):
    run, _ = talk[-1]
    before = run_context(run=run).view.segments

    CompactionDigest.objects.update(status=CompactionDigest.Status.MERGED)

    assert before
    assert run_context(run=run).view.segments == before


def test_predicted_cached_tokens_stand_beside_the_reported_ones(user, conversation_id):
    turn_answer(user_id=user.pk, conversation_id=conversation_id, question="one")
    run, view = turn_answer(user_id=user.pk, conversation_id=conversation_id, question="two", cached=7)

    [call] = run_context(run=run).calls

    assert (call.cached_tokens, call.predicted_cached_tokens) == (7, view.allocation.predicted_cached)
    assert call.prompt_tokens == view.allocation.used


def test_secrets_are_left_out_of_the_request_after_it_was_compared(user, conversation_id):
    calls = [{"id": "c1", "name": "fetch", "arguments": '{"key": "sk-abcdefghijklmnop"}'}]
    with transaction.atomic():
        row = Conversation.objects.select_for_update().get(pk=conversation_id)
        for new in (
            NewMessage(Message.Role.USER, "Look"),
            NewMessage(Message.Role.ASSISTANT, "", tool_calls=calls),
            NewMessage(Message.Role.TOOL, "Bearer abcdefghijklmnop", tool_call_id="c1"),
            NewMessage(Message.Role.ASSISTANT, "Seen"),
        ):
            message_append(conversation=row, new=new, turn=1)
        conversation_counters_save(row)
    run, _ = turn_answer(user_id=user.pk, conversation_id=conversation_id, question="agx_abcdefghijklmnop")

    request = run_context(run=run, request=True).request

    text = json.dumps(request.messages)
    assert request.rebuilt == "identical"
    assert text.count("[redacted]") == 3
    assert "abcdefghijklmnop" not in text


def test_the_data_of_images_gives_way_to_its_size():
    url = "data:image/png;base64," + "A" * 3_000
    parts = (ImagePart(url=url, media_type="image/png"), ImagePart(url="https://x.test/a.png"))

    [dumped] = dump_request([UserMessage(content="Look", parts=parts)])

    assert [part["url"] for part in dumped["parts"]] == [
        "data:image/png,… [3,022 characters, left out]",
        "https://x.test/a.png",
    ]


def test_what_was_superseded_since_is_still_what_was_sent(talk, conversation_id):
    run, _ = talk[-1]
    before = run_context(run=run, request=True)

    _withdraw(conversation_id, how="superseded", seqs=[1, run.user_message.seq - 1, run.user_message.seq])

    assert run_context(run=run, request=True) == before
    assert before.request.rebuilt == "identical"


def test_what_was_superseded_before_has_no_fate(user, conversation_id):
    for question in ("one", "two"):
        turn_answer(user_id=user.pk, conversation_id=conversation_id, question=question)
    Message.objects.filter(seq__in=(3, 4)).update(superseded_at=timezone.now() - timedelta(hours=1))
    Conversation.objects.update(revision=1)
    run, _ = turn_answer(user_id=user.pk, conversation_id=conversation_id, question="three")

    body = run_context(run=run, request=True)

    ranges = [(item.from_seq, item.through_seq, item.fates) for item in body.view.fates.ranges]
    assert ranges == [(1, 2, ["verbatim"])]
    assert (body.view.epoch.reason, body.request.rebuilt) == ("edit", "identical")


def test_a_deleted_message_comes_back_nowhere(talk, conversation_id):
    run, sent = talk[-1]
    assert "Albatross" in sent.tail

    _withdraw(conversation_id, how="deleted", seqs=[1])

    body = run_context(run=run, request=True)
    said = body.model_dump(exclude={"request": {"messages": {-1}}})  # the question names the boat itself
    assert "Albatross." not in json.dumps(said, default=str)
    assert "4,200" not in json.dumps(said, default=str)
    assert body.view.tail is None
    assert {block.key: block.text for block in body.view.blocks}["digest"] is None
    assert body.view.segments[0].text is None
    assert (body.request.rebuilt, body.request.reason) == (
        "differs",
        "It quoted messages that were deleted since",
    )


def test_deleted_messages_that_were_in_view_are_counted(talk, conversation_id):
    run, sent = talk[-1]

    _withdraw(conversation_id, how="deleted", seqs=[sent.history[-1].message.seq])

    request = run_context(run=run, request=True).request
    assert request.rebuilt == "differs"
    assert request.reason == "1 message that was sent cannot be read any more: deleted since"
    assert len(request.messages) == len(sent.messages) - 1


def test_another_system_text_is_named(talk, monkeypatch):
    run, _ = talk[-1]

    monkeypatch.setattr("conversations.selectors.rebuild.BASE_PROMPT", "Be brief.")

    request = run_context(run=run, request=True).request
    assert (request.rebuilt, request.reason) == (
        "differs",
        "The system text that went with it is another by now",
    )


def test_without_the_epochs_row_only_a_view_without_a_cut_is_rebuilt(talk):
    (first, _), (last, _) = talk[0], talk[-1]

    ContextEpoch.objects.all().delete()

    assert run_context(run=first, request=True).request.rebuilt == "identical"
    body = run_context(run=last, request=True)
    assert (body.view.blocks, body.view.epoch.began_at) == ([], None)
    assert (body.request.rebuilt, body.request.messages) == ("unknown", [])
    assert "is gone" in body.request.reason


def test_a_run_without_a_view_says_why(user, conversation_id):
    run_id = turn_submit(user_id=user.pk, conversation_id=conversation_id, content="hello").run.id

    with pytest.raises(Conflict):
        run_context(run=run_find(run_id=run_id))
    run_cancel(user_id=user.pk, run_id=run_id)
    with pytest.raises(NotFound):
        run_context(run=run_find(run_id=run_id))


def test_a_record_of_another_release_is_refused(user, conversation_id):
    run, _ = turn_answer(user_id=user.pk, conversation_id=conversation_id, question="one")
    del run.view["settled_seq"]

    with pytest.raises(NotFound, match="another release"):
        run_context(run=run)


@pytest.mark.parametrize("turns", [4, 8])
def test_inv_10_an_explanation_takes_the_same_queries_whatever_the_length(
    user, conversation_id, django_assert_num_queries, turns
):
    """INV-10: epoch with its conversation, segments where there are any, calls; for the request its tools and rows."""
    run, _ = long_talk(user_id=user.pk, conversation_id=conversation_id, turns=turns)[-1]
    run = run_find(run_id=run.pk)

    with django_assert_num_queries(2 if turns == 4 else 3):
        run_context(run=run)
    with django_assert_num_queries(4 if turns == 4 else 5):
        run_context(run=run, request=True)


def test_fates_are_bounded_and_can_be_paged_through(user, conversation_id):
    run, _ = turn_answer(user_id=user.pk, conversation_id=conversation_id, question="one")
    run.view |= {
        "question_seq": 100_001,
        "cut_seq": 99_990,
        "covered_seq": 99_990,
        "sent": [[99_991, 100_000]],
    }

    newest = run_context(run=run).view.fates
    page = run_context(run=run, from_seq=99_980, through_seq=99_995).view.fates
    wide = run_context(run=run, from_seq=1, through_seq=50_000).view.fates

    assert (newest.from_seq, newest.through_seq, newest.truncated) == (100_001 - MOST_FATES, 100_000, True)
    assert [(item.from_seq, item.through_seq, item.fates) for item in page.ranges] == [
        (99_980, 99_990, ["in_segment"]),
        (99_991, 99_995, ["verbatim"]),
    ]
    assert not page.truncated
    assert (wide.from_seq, wide.through_seq, wide.truncated) == (48_001, 50_000, True)


@pytest.mark.parametrize("turns", [1, 4, 6, 7, 8, 9])
def test_the_preview_is_what_the_next_turn_then_sees(user, conversation_id, turns):
    long_talk(user_id=user.pk, conversation_id=conversation_id, turns=turns)
    before = Conversation.objects.get().epoch

    shown = context_preview(user_id=user.pk, conversation_id=conversation_id, message=RECALLING, request=True)
    run, view = turn_answer(user_id=user.pk, conversation_id=conversation_id, question=RECALLING)

    body = run_context(run=run)
    moved = Conversation.objects.get().epoch != before
    assert shown.fits
    assert shown.messages == canonical_request(messages=view.messages)
    assert shown.epoch_change == (body.view.epoch.reason if moved else None)
    unstored = {"epoch": {"began_at"}}
    assert shown.view.model_dump(exclude=unstored) == body.view.model_dump(exclude=unstored)


def test_the_preview_names_every_kind_of_epoch_change(user, conversation_id):
    def change() -> str | None:
        return context_preview(
            user_id=user.pk, conversation_id=conversation_id, message="More? " * 400
        ).epoch_change

    seen = [change()]
    for number in range(6):
        turn_answer(
            user_id=user.pk,
            conversation_id=conversation_id,
            question=f"Note {number}. " + "sail " * 600,
        )
        seen.append(change())

    assert seen[0] == "start"
    assert {None, "cut"} <= set(seen)


def test_the_preview_stores_nothing_even_where_an_epoch_would_begin(user, conversation_id):
    changes = set()
    for number in range(1, 7):
        turn_answer(
            user_id=user.pk, conversation_id=conversation_id, question=f"Note {number}. " + "sail " * 600
        )
        before = _state()

        changes.add(
            context_preview(
                user_id=user.pk, conversation_id=conversation_id, message="And " * 800
            ).epoch_change
        )

        assert _state() == before
    assert "cut" in changes


def test_a_preview_that_cannot_fit_names_its_needs(user, conversation_id):
    turn_answer(user_id=user.pk, conversation_id=conversation_id, question="one")
    before = _state()

    shown = context_preview(user_id=user.pk, conversation_id=conversation_id, message="word " * 4_000)

    assert (shown.fits, shown.view, shown.messages, shown.epoch_change) == (False, None, None, None)
    assert list(shown.needs) == ["base_prompt", "tools", "question"]
    assert shown.needs["question"] > 4_000 > shown.budget > 0
    assert _state() == before


def test_the_preview_plans_with_the_window_that_the_server_reported_last(user, conversation_id, settings):
    run, _ = turn_answer(user_id=user.pk, conversation_id=conversation_id, question="one")
    settings.CONTEXT_WINDOW_TOKENS = 0
    Run.objects.update(allocation=run.allocation | {"window": 6_144}, view=run.view | {"strict_roles": True})

    shown = context_preview(user_id=user.pk, conversation_id=conversation_id, message="two", request=True)

    assert shown.view.allocation.window == 6_144
    assert shown.epoch_change == "model"


def test_the_preview_of_a_deleted_message_does_not_show_it(talk, user, conversation_id):
    Message.objects.filter(seq=1).update(deleted_at=timezone.now() - timedelta(seconds=1))
    Conversation.objects.update(revision=1)
    MessageEntry.objects.filter(seq=1).delete()
    CompactionDigest.objects.update(status=CompactionDigest.Status.INVALID)
    after_turn(conversation_id)

    shown = context_preview(user_id=user.pk, conversation_id=conversation_id, message="boat?", request=True)

    assert shown.epoch_change == "edit"
    assert "4,200" not in shown.model_dump_json()
    assert all(item.from_seq > 1 for item in shown.view.fates.ranges)


# The command


def _command(*arguments: str) -> str:
    out = StringIO()
    call_command("explain_context", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_prints_figures_and_no_content(talk):
    run, view = talk[-1]

    printed = _command(str(run.pk))

    lines = printed.splitlines()
    assert f"used {view.allocation.used:,}" in lines[1]
    assert f"epoch {view.allocation.epoch} (" in lines[2]
    assert any(line.split()[:1] == ["digest"] for line in lines)
    assert any(line.startswith("1 ") and "in_segment" in line for line in lines)
    assert "sail" not in printed
    assert "Albatross" not in printed


def test_the_command_prints_texts_only_when_asked(talk):
    run, view = talk[-1]

    printed = _command(str(run.pk), "--content")

    assert view.tail in printed
    assert "must never exceed 4,200 euros" in printed


def test_the_command_dumps_the_request(talk):
    run, view = talk[-1]

    printed = _command(str(run.pk), "--request")

    assert "rebuilt request: identical" in printed
    dumped = json.loads(printed.partition("\nrequest\n")[2])
    assert dumped == canonical_request(messages=view.messages)


def test_the_command_as_json_has_no_content_unless_asked(talk):
    run, view = talk[-1]

    plain, full = (
        json.loads(_command(str(run.pk), "--json")),
        json.loads(_command(str(run.pk), "--json", "--content")),
    )

    assert plain["view"]["allocation"]["used"] == view.allocation.used
    assert "Albatross" not in json.dumps(plain)
    assert full["view"]["tail"] == view.tail


@pytest.mark.parametrize("run_id", ["0b9f7f0e-7d0a-4a8e-9d5e-2f5b6c7d8e9f", "nonsense"])
def test_the_command_refuses_an_unknown_run_with_one_sentence(run_id):
    with pytest.raises(CommandError, match=r"^There is no such run$|is not the id of a run$") as refused:
        _command(run_id)

    assert refused.value.returncode == 1
