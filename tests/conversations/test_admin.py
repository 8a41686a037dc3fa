"""The operator's pages: bounded, read-only, and without content for those who may not see it."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from agentx.accounts.services import token_create
from conversations.models import Conversation
from conversations.services.cancel import run_cancel
from conversations.services.conversations import conversation_create
from conversations.services.submit import turn_submit

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
