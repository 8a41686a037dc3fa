"""Figures of several processes add up, are for operators only, and never cost an answer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client

from agentx import metrics
from agentx.accounts.services import token_create
from agentx.embedded.application import clear_metrics

ROOT = Path(__file__).resolve().parents[2]

_RECORD = """
import django
django.setup()
from agentx import metrics
metrics.call_count(model="m", prompt_tokens=1000, cached_tokens=800, output_tokens=50)
metrics.call_count(model="m", prompt_tokens=None, cached_tokens=None, output_tokens=None)
metrics.epoch_count(reason="cut", evicted=12, shortened=3)
metrics.overflow_retry_count(model="m")
metrics.missed_count_count()
"""


def _processes(folder: Path, *, count: int) -> None:
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "agentx.settings.test", "AGENTX_METRICS_DIR": str(folder)}
    for _ in range(count):
        subprocess.run([sys.executable, "-c", _RECORD], cwd=ROOT, env=env, check=True, capture_output=True)


def _value(text: str, sample: str) -> float | None:
    found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None


def test_figures_of_all_processes_are_added_up_also_of_those_that_ended(tmp_path, settings):
    settings.METRICS_DIR = tmp_path

    _processes(tmp_path, count=2)

    text = metrics.metrics_render().decode()
    samples = {
        'agentx_tokens_total{kind="prompt",model="m",purpose="chat"}': 2000.0,
        'agentx_tokens_total{kind="cached",model="m",purpose="chat"}': 1600.0,
        'agentx_tokens_total{kind="output",model="m",purpose="chat"}': 100.0,
        'agentx_input_tokens_bucket{le="512.0",model="m"}': 0.0,
        'agentx_input_tokens_bucket{le="1024.0",model="m"}': 2.0,
        'agentx_cache_read_ratio_bucket{le="0.7",model="m"}': 0.0,
        'agentx_cache_read_ratio_bucket{le="0.8",model="m"}': 2.0,
        'agentx_context_epochs_total{reason="cut"}': 2.0,
        "agentx_evicted_messages_total": 24.0,
        "agentx_shortened_tool_arguments_total": 6.0,
        'agentx_context_overflow_retries_total{model="m"}': 2.0,
        "agentx_exact_counts_missed_total": 2.0,
    }
    assert {sample: _value(text, sample) for sample in samples} == samples


def test_a_start_of_the_stack_forgets_processes_that_are_gone(tmp_path, settings):
    settings.METRICS_DIR = tmp_path
    _processes(tmp_path, count=1)
    (tmp_path / "kept.txt").touch()

    clear_metrics(tmp_path)
    clear_metrics(tmp_path / "absent")

    assert [file.name for file in tmp_path.iterdir()] == ["kept.txt"]
    assert metrics.metrics_render() == b""


def test_a_folder_that_cannot_be_written_costs_figures_and_nothing_else(tmp_path, settings, caplog):
    settings.METRICS_DIR = tmp_path / "file" / "metrics"
    (tmp_path / "file").write_text("in the way")
    metrics._figures.cache_clear()

    metrics.epoch_count(reason="cut", evicted=1, shortened=0)
    metrics.call_count(model="m", prompt_tokens=1, cached_tokens=1, output_tokens=1)

    assert caplog.text.count("metric_lost") == 2


@pytest.fixture
def operator(make_user):
    return make_user(is_staff=True)


@pytest.mark.django_db
def test_metrics_are_for_operators(user, operator):
    def status(by) -> int:
        _, secret = token_create(user_id=by.pk, name="tests")
        return Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/metrics").status_code

    session = Client()
    session.force_login(operator)

    assert (status(user), status(operator)) == (403, 200)
    assert (Client().get("/api/metrics").status_code, session.get("/api/metrics").status_code) == (401, 200)
    assert session.get("/api/metrics")["Content-Type"].startswith("text/plain; version=0.0.4")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("configured", "sent", "status"),
    [
        ("s3cret", "Bearer s3cret", 200),
        ("s3cret", "Bearer s3cre", 401),
        ("", "Bearer ", 401),
        ("s3cret", "s3cret", 401),
    ],
)
def test_a_scraper_has_a_token_of_its_own(settings, configured, sent, status):
    settings.METRICS_TOKEN = configured

    assert Client(headers={"Authorization": sent}).get("/api/metrics").status_code == status
