"""Whether the sample tools are offered."""

from __future__ import annotations

from django.conf import settings


def wants_samples() -> bool:
    """The operator's setting, off by default."""
    return bool(settings.TOOLS_SAMPLE_DATA)
