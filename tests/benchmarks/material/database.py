"""The product's own database layer in this process, on a throw-away database."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django

from tests.stack import running_stack


@contextmanager
def product_database(**settings: object) -> Iterator[None]:
    """Django connected to a migrated database that is dropped afterwards; ``settings`` hold meanwhile."""
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder), processes=()) as stack:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentx.settings.test")
        os.environ.setdefault("REDIS_URL", os.environ["AGENTX_TEST_REDIS"])
        django.setup()
        from django.db import connection
        from django.test import override_settings

        _leave()
        connection.settings_dict["NAME"] = stack.database_url.split("?", 1)[0].rsplit("/", 1)[1]
        try:
            with override_settings(**settings):
                yield
        finally:
            _leave()


def _leave() -> None:
    from django.db import connection

    connection.close()
    connection.close_pool()
