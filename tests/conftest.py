"""Fixtures that every test may use."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from django.contrib.auth import get_user_model

_numbers = itertools.count(1)


@pytest.fixture
def make_user(db) -> Callable:
    """A function that makes a user with a name of its own."""

    def make(**fields):
        number = next(_numbers)
        return get_user_model().objects.create_user(
            username=f"user{number}", password="correct horse", **fields
        )

    return make


@pytest.fixture
def user(make_user):
    """Somebody."""
    return make_user()


@pytest.fixture
def other_user(make_user):
    """Somebody else, who must not reach what belongs to ``user``."""
    return make_user()
