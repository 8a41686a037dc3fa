"""HTTP clients that are signed in by token, as scripts are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import AsyncClient, Client

from agentx.accounts.services import token_create


class BearerAsyncClient(AsyncClient):
    """Django's own puts default headers into the ASGI scope under names that no server uses."""

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__()
        self._bearer = headers

    def generic(self, *args, headers=None, **kwargs):
        return super().generic(*args, headers=self._bearer | (headers or {}), **kwargs)


@pytest.fixture
def bearer() -> Callable[..., dict[str, str]]:
    """The headers of a user's token."""

    def make(user) -> dict[str, str]:
        _, secret = token_create(user_id=user.pk, name="tests")
        return {"Authorization": f"Bearer {secret}"}

    return make


@pytest.fixture
def client_for(bearer) -> Callable[..., Client]:
    """A client of a user."""
    return lambda user: Client(headers=bearer(user))


@pytest.fixture
def async_client_for(bearer) -> Callable[..., AsyncClient]:
    """A client of a user that goes the way of the ASGI server."""
    return lambda user: BearerAsyncClient(bearer(user))


@pytest.fixture
def client(user, client_for) -> Client:
    """A client of ``user``."""
    return client_for(user)
