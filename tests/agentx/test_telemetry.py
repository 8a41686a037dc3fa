"""P18: no secret reaches a log line."""

from __future__ import annotations

import json
import logging

import pytest
import structlog

from agentx.telemetry import log_config, redact_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abcdefgh12345678", "Authorization: [redacted]"),
        ("key sk-canary-0123456789 is wrong", "key [redacted] is wrong"),
        ("token agx_0123456789abcdef", "token [redacted]"),
        ("redis://:s3cret@127.0.0.1:6379/0", "redis://[redacted]@127.0.0.1:6379/0"),
        ("GET /sign-in/AbCdEfGhIjKlMnOpQrSt/ 302", "GET /sign-in/[redacted]/ 302"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_p18_what_looks_like_a_secret_is_blanked(text, shown):
    assert redact_secrets(text) == shown


def test_p18_a_canary_in_every_part_of_a_log_line_is_blanked(capsys):
    logging.config.dictConfig(log_config(level="INFO"))
    canary = "sk-canary-0123456789"

    try:
        raise ValueError(f"upstream said {canary}")
    except ValueError:
        structlog.get_logger("test").exception(
            "failed", url=f"http://x/{canary}", header=f"Bearer {canary}", nested={"list": [canary]}
        )
    logging.getLogger("other").error("plain %s", canary)

    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 2
    assert all(canary not in line for line in lines)
    assert json.loads(lines[0])["event"] == "failed"
