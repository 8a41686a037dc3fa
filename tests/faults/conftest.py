"""A running product of its own for every fault test, since each breaks it."""

from __future__ import annotations

import pytest

from tests.stack import Client, Stack, running_stack


@pytest.fixture
def stack(tmp_path) -> Stack:
    with running_stack(tmp_path) as running:
        yield running


@pytest.fixture
def client(stack) -> Client:
    """A new user of it."""
    return stack.client()
