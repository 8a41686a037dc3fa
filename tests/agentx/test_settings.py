"""Settings come typed from the environment, and a wrong value is told in one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from agentx.settings import env

ROOT = Path(__file__).resolve().parent.parent.parent
PRODUCTION = {
    "DJANGO_SETTINGS_MODULE": "agentx.settings.prod",
    "SECRET_KEY": "0123456789-abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOP",
    "DATABASE_URL": "postgresql://agentx@db.example/agentx",
    "REDIS_URL": "redis://redis.example/0",
    "LLM_BASE_URL": "https://llm.example/v1",
    "ALLOWED_HOSTS": "agentx.example",
}


def _manage(*arguments: str, without: str = "", **values: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **PRODUCTION, **values}
    environment.pop(without, None)
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("AGENTX_PORT", "9000", 9000),
        ("MODEL_STALL_SECONDS", "2.5", 2.5),
        ("AGENTX_DEBUG", "yes", True),
        ("AGENTX_DEBUG", "off", False),
        ("ALLOWED_HOSTS", "a.example,b.example", ["a.example", "b.example"]),
        ("LLM_MODEL", "some-model", "some-model"),
    ],
)
def test_values_are_typed(monkeypatch, name, raw, value):
    monkeypatch.setenv(name, raw)

    assert env.read(name) == value


@pytest.mark.parametrize(
    ("name", "raw", "said"),
    [
        ("AGENTX_PORT", "many", "AGENTX_PORT='many' is not a valid int"),
        ("AGENTX_PORT", "0", "AGENTX_PORT=0 must be at least 1"),
        ("AGENTX_DEBUG", "perhaps", "AGENTX_DEBUG='perhaps' is not a valid bool"),
        ("LLM_BASE_URL", "nonsense", "LLM_BASE_URL='nonsense' is not a valid url"),
        ("LLM_BASE_URL", "ftp://host/v1", "LLM_BASE_URL='ftp://host/v1' is not a valid url"),
        ("RUN_LEASE_SECONDS", "0.1", "RUN_LEASE_SECONDS=0.1 must be at least 0.5"),
        ("CONTEXT_LOW_WATERMARK", "0.95", "CONTEXT_LOW_WATERMARK=0.95 must be at most 0.9"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(monkeypatch, name, raw, said):
    monkeypatch.setenv(name, raw)

    with pytest.raises(ImproperlyConfigured, match=said.replace("(", r"\(")):
        env.read(name)


def test_an_empty_variable_is_an_unset_one(monkeypatch):
    monkeypatch.setenv("AGENTX_PORT", "")

    assert env.read("AGENTX_PORT") == 8000


def test_a_second_terminal_finds_the_services_of_a_running_instance(monkeypatch, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "services.json").write_text(json.dumps({"LLM_MODEL": "found-here"}))

    command = [sys.executable, "-c", "from agentx.settings import env; print(env.read('LLM_MODEL'))"]
    values = {"PATH": os.environ["PATH"], "AGENTX_DATA_DIR": str(tmp_path)}
    found = subprocess.run(command, cwd=ROOT, env=values, capture_output=True, text=True)
    chosen = subprocess.run(
        command, cwd=ROOT, env=values | {"LLM_MODEL": "mine"}, capture_output=True, text=True
    )

    assert (found.stdout.strip(), chosen.stdout.strip()) == ("found-here", "mine")


def test_production_settings_pass_the_deployment_check():
    done = _manage("check", "--deploy", "--fail-level", "WARNING")

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("missing", ["SECRET_KEY", "DATABASE_URL", "REDIS_URL", "LLM_BASE_URL"])
def test_production_refuses_to_start_without_what_it_needs(missing):
    done = _manage("check", without=missing)

    assert done.returncode != 0
    assert f"{missing} must be set in production" in done.stderr


def test_production_refuses_debug_pages():
    done = _manage("check", AGENTX_DEBUG="1")

    assert "AGENTX_DEBUG must be off in production" in done.stderr


@pytest.mark.parametrize(
    ("url", "host", "name", "user"),
    [
        ("postgresql://ada:pw@db.example:6543/agentx", "db.example", "agentx", "ada"),
        ("postgresql://postgres@/agentx?host=/run/sockets", "/run/sockets", "agentx", "postgres"),
    ],
)
def test_database_urls_may_name_hosts_and_socket_folders(url, host, name, user):
    config = env.database_config(url)

    assert (config["HOST"], config["NAME"], config["USER"]) == (host, name, user)


def test_a_wrong_setting_is_one_line_on_the_terminal_not_a_traceback():
    done = _manage("check", RUN_LEASE_SECONDS="soon")

    assert (done.returncode, done.stderr) == (2, "error: RUN_LEASE_SECONDS='soon' is not a valid float\n")


def test_a_command_without_a_database_says_so_in_one_line():
    done = _manage("reap_runs", DATABASE_URL="postgresql://nobody@127.0.0.1:9/none")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: the database cannot be reached")
    assert "Traceback" not in done.stderr


def test_model_routes_are_listed_without_asking_or_showing_a_key(settings, capsys):
    """PRV-15: the candidate chain, and what each role would ask."""
    settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_MODEL = "http://one.example/v1", "sk-1", "big"
    settings.LLM_FALLBACKS, settings.LLM_ROLES = ["small"], {"summarizer": "tiny@http://two.example/v1"}

    call_command("model_routes")

    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "conversations:",
        "  1. big at http://one.example/v1 (with a key)",
        "  2. small at http://one.example/v1 (with a key)",
    ]
    at = lines.index("summarizer:")
    assert lines[at + 1] == "  1. tiny at http://two.example/v1 (without a key)"
    assert "sk-1" not in "".join(lines)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("LLM_FALLBACKS", "@https://two.example/v1", "is not a model id"),
        ("SUMMARIZER_MODEL", "role:nobody", "names no role"),
        ("LLM_ENDPOINT_KEYS", "sk-secret", "host=key"),
    ],
)
def test_a_bad_route_ends_the_start_with_a_sentence(variable, value, said):
    answer = _manage("check", **{variable: value})

    assert answer.returncode != 0
    assert said in answer.stderr
    assert "sk-secret" not in answer.stderr
