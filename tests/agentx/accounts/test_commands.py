"""The commands that open the door from the terminal."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from agentx.accounts.models import ApiToken, SignInLink, User

pytestmark = pytest.mark.django_db


def _run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_the_first_link_makes_the_owner_and_signs_them_in(monkeypatch):
    monkeypatch.setenv("AGENTX_HOST", "0.0.0.0")
    monkeypatch.setenv("AGENTX_PORT", "8123")

    printed = json.loads(_run("sign_in_link", "--json"))

    assert printed["username"] == "owner"
    assert printed["url"].startswith("http://127.0.0.1:8123/sign-in/")
    client = Client()
    assert client.get(printed["url"].removeprefix("http://127.0.0.1:8123"))["Location"] == "/"
    assert User.objects.get().is_superuser


def test_a_link_for_somebody_at_another_address(user):
    printed = json.loads(
        _run("sign_in_link", "--username", user.username, "--base-url", "https://chat.example/", "--json")
    )

    assert printed["url"].startswith("https://chat.example/sign-in/")
    assert SignInLink.objects.get().user == user


def test_a_link_for_nobody_says_so_and_makes_nothing(user):
    with pytest.raises(CommandError, match="no active user 'nobody'"):
        _run("sign_in_link", "--username", "nobody")

    assert SignInLink.objects.count() == 0


def test_a_token_is_printed_and_works(user):
    printed = json.loads(
        _run("create_token", "--username", user.username, "--name", "ci", "--scope", "read", "--json")
    )

    assert (printed["name"], printed["scope"], printed["id"]) == ("ci", "read", ApiToken.objects.get().pk)
    client = Client(headers={"Authorization": f"Bearer {printed['token']}"})
    assert client.get("/api/conversations").status_code == 200
