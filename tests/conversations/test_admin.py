"""The operator's pages: bounded, read-only, and without content for those who may not see it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from agentx.accounts.services import token_create
from conversations.admin.base import MOST_LISTED
from conversations.models import CompactionDigest, ContextEpoch, Conversation, EvidenceLedger, Message, Run
from conversations.services.cancel import run_cancel
from conversations.services.conversations import conversation_create
from conversations.services.submit import turn_submit
from tests.conversations.answered import long_talk, turn_answer

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation(user):
    body = conversation_create(user_id=user.pk)
    accepted = turn_submit(user_id=user.pk, conversation_id=body.id, content="a private <b>matter</b>")
    run_cancel(user_id=user.pk, run_id=accepted.run.id)
    return body


def _staff(make_user, *codenames: str) -> Client:
    staff = make_user(is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(staff)
    return client


def test_without_the_permission_there_is_no_content(make_user, conversation):
    client = _staff(make_user, "view_conversation", "view_run")

    for path in ("", f"{conversation.id}/change/"):
        page = client.get(f"/admin/conversations/conversation/{path}")
        assert page.status_code == 200
        assert b"private" not in page.content


def test_with_the_permission_content_is_shown_as_text(make_user, conversation):
    client = _staff(make_user, "view_conversation", "view_content")

    page = client.get(f"/admin/conversations/conversation/{conversation.id}/change/")

    assert b"a private &lt;b&gt;matter&lt;/b&gt;" in page.content


def test_even_a_superuser_can_add_change_or_delete_nothing(make_user, conversation):
    client = Client()
    client.force_login(make_user(is_staff=True, is_superuser=True))
    path = f"/admin/conversations/conversation/{conversation.id}"

    assert client.get("/admin/conversations/conversation/add/").status_code == 403
    assert client.post(f"{path}/change/", {"title": "x"}).status_code == 403
    assert client.post(f"{path}/delete/", {"post": "yes"}).status_code == 403
    assert Conversation.objects.filter(pk=conversation.id).exists()


def test_a_run_is_shown(make_user, conversation):
    client = _staff(make_user, "view_run")
    run = Conversation.objects.get().runs.get()

    assert client.get(f"/admin/conversations/run/{run.pk}/change/").status_code == 200


@pytest.mark.parametrize("count", [1, 20])
def test_the_list_costs_the_same_for_any_number_of_rows(make_user, count, django_assert_num_queries):
    client = Client()
    client.force_login(make_user(is_staff=True, is_superuser=True))
    for _ in range(count):
        conversation_create(user_id=make_user().pk)

    with django_assert_num_queries(LIST):
        assert client.get("/admin/conversations/conversation/").status_code == 200


LIST = 4  # session, user, count of the page, rows with their owners


def test_p18_tokens_are_listed_without_digests(make_user, user):
    client = Client()
    client.force_login(make_user(is_staff=True, is_superuser=True))
    row, secret = token_create(user_id=user.pk, name="script")

    for path in ("", f"{row.pk}/change/"):
        page = client.get(f"/admin/accounts/apitoken/{path}").content.decode()
        assert row.digest not in page
        assert secret not in page


# What the model saw

CONTEXT_MODELS = ("contextepoch", "compactiondigest", "evidenceledger")
VIEWS = tuple(f"view_{name}" for name in ("run", *CONTEXT_MODELS))
PRIVATE = (b"4,200", b"Albatross", b"sail cloth")


@pytest.fixture
def talk(user, settings):
    """A conversation some of which has left the view, whose last run recalled its first turn."""
    settings.LLM_MODEL, settings.CONTEXT_WINDOW_TOKENS = "scripted", 4_096
    conversation_id = conversation_create(user_id=user.pk).id
    long_talk(user_id=user.pk, conversation_id=conversation_id)
    return turn_answer(
        user_id=user.pk, conversation_id=conversation_id, question="Was the boat's name Albatross?"
    )


def _context_pages(run: Run) -> list[str]:
    """The addresses of every list and of one row of each."""
    rows = {
        "run": run.pk,
        "contextepoch": ContextEpoch.objects.order_by("-number")[0].pk,
        "compactiondigest": CompactionDigest.objects.filter(text__contains="sail cloth")[0].pk,
        "evidenceledger": EvidenceLedger.objects.get().pk,
    }
    root = "/admin/conversations"
    return [f"{root}/{name}/{path}" for name, pk in rows.items() for path in ("", f"{pk}/change/")]


def test_what_the_model_saw_is_shown_without_a_word_of_content(make_user, talk):
    client = _staff(make_user, *VIEWS)

    for path in _context_pages(talk[0]):
        page = client.get(path)
        assert page.status_code == 200
        assert not any(word in page.content for word in PRIVATE), path


def test_with_the_permission_the_texts_are_shown(make_user, talk):
    client = _staff(make_user, *VIEWS, "view_content")

    pages = [client.get(path).content for path in _context_pages(talk[0]) if path.endswith("change/")]

    assert [any(word in page for word in PRIVATE) for page in pages] == [True] * 4
    assert b"rebuilt: identical" in pages[0]


def test_a_run_shows_allocation_epoch_fates_and_recalled_turns(make_user, talk):
    run, view = talk
    client = _staff(make_user, "view_run")

    page = client.get(f"/admin/conversations/run/{run.pk}/change/").content.decode()

    budget = view.allocation.budget
    for grant in view.allocation.grants:
        assert f"<td>{grant.key}</td><td>{grant.asked}</td><td>{grant.granted}</td>" in page
        assert f'<meter max="{budget}" value="{grant.granted}"></meter>' in page
    assert f"<td>{view.allocation.epoch} (cut)</td>" in page
    assert f"<td>messages 1 to {run.view['cut_seq']} left the view, all in segments</td>" in page
    recalled = ", ".join(str(turn) for turn in sorted({passage.turn for passage in view.recalled}))
    assert f"<td>recalled turns</td><td>{recalled}</td>" in page
    assert "in_segment" in page
    assert "style=" not in page.partition("what the model saw")[2]


def test_secrets_are_left_out_for_those_who_may_see_content(make_user, user, settings):
    settings.LLM_MODEL = "scripted"
    conversation_id = conversation_create(user_id=user.pk).id
    run, _ = turn_answer(
        user_id=user.pk, conversation_id=conversation_id, question="You must use sk-abcdefghijklmnop always"
    )
    client = _staff(make_user, *VIEWS, "view_content")

    request = client.get(f"/admin/conversations/run/{run.pk}/change/").content
    ledger = client.get(f"/admin/conversations/evidenceledger/{conversation_id}/change/").content

    assert b"You must use [redacted] always" in request
    assert b"You must use [redacted] always" in ledger


def test_words_of_deleted_messages_are_withheld(make_user, talk):
    paths = [path for path in _context_pages(talk[0]) if path.endswith("change/")]
    Message.objects.filter(seq__lt=talk[0].user_message.seq).update(
        deleted_at=timezone.now() + timedelta(seconds=1)
    )
    Conversation.objects.update(revision=1)
    client = _staff(make_user, *VIEWS, "view_content")

    pages = [client.get(path).content for path in paths]

    for page in pages[1:]:
        assert not any(word in page for word in PRIVATE)
    assert b"4,200" not in pages[0]
    assert [b"withheld" in page for page in pages] == [True, True, True, False]
    assert b"from before an edit" in pages[3]


@pytest.mark.parametrize("name", CONTEXT_MODELS)
def test_not_even_a_superuser_can_change_what_a_view_was_made_of(make_user, talk, name):
    client = Client()
    client.force_login(make_user(is_staff=True, is_superuser=True))
    path = next(path for path in _context_pages(talk[0]) if name in path and path.endswith("change/"))

    assert client.get(f"/admin/conversations/{name}/add/").status_code == 403
    assert client.post(path, {"number": "9"}).status_code == 403
    assert client.post(path.replace("change", "delete"), {"post": "yes"}).status_code == 403


def _fill(name: str, user, count: int) -> None:
    """Rows as many as asked for, by one statement."""
    conversation = Conversation.objects.create(owner=user, next_seq=count + 1)
    if name == "contextepoch":
        numbers = {"cut_seq": 0, "settled_seq": 0, "covered_seq": 0, "revision": 0}
        ContextEpoch.objects.bulk_create(
            ContextEpoch(
                conversation=conversation, number=n, reason="cut", model="m", fingerprint="", **numbers
            )
            for n in range(count)
        )
    elif name == "compactiondigest":
        CompactionDigest.objects.bulk_create(
            CompactionDigest(
                conversation=conversation,
                from_seq=n,
                through_seq=n,
                from_message_id=n,
                through_message_id=n,
                source_hash=str(n),
                prompt_version="v",
                kind="mechanical",
                reason="jit",
                text="x",
                tokens=1,
                source_tokens=1,
                messages=1,
            )
            for n in range(1, count + 1)
        )
    else:
        owners = [Conversation(owner=user) for _ in range(count)]
        Conversation.objects.bulk_create(owners)
        EvidenceLedger.objects.bulk_create(EvidenceLedger(conversation=owner) for owner in owners)


@pytest.mark.parametrize("name", CONTEXT_MODELS)
def test_context_lists_read_one_page_and_count_no_table(
    make_user, user, name, django_assert_num_queries, monkeypatch
):
    client = Client()
    client.force_login(make_user(is_staff=True, is_superuser=True))
    monkeypatch.setattr("conversations.admin.base.MOST_LISTED", 60)
    _fill(name, user, 200)

    with django_assert_num_queries(LIST) as asked:
        page = client.get(f"/admin/conversations/{name}/")

    assert page.context["cl"].result_count == 60
    assert MOST_LISTED == 10_000
    read = asked.captured_queries[-1]["sql"]
    assert "LIMIT 50" in read
    for heavy in ("blocks", "segments", '"text"', "buckets", "identifiers"):
        assert heavy not in read
