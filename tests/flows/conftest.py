"""One running product per test process, shared by its flow tests; each test uses a user of its own."""

from __future__ import annotations

import pytest

from tests.stack import Client, Stack, running_stack


@pytest.fixture(scope="session")
def shared_stack(tmp_path_factory):
    with running_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture
def stack(shared_stack) -> Stack:
    """The running product; its scripted model is forgotten between tests."""
    shared_stack.model.reset()
    return shared_stack


@pytest.fixture
def client(stack) -> Client:
    """A new user of it."""
    return stack.client()
