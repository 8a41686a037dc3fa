"""The browser test: Chromium against the running product. The steps themselves are in ``frontend/e2e``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.stack import running_stack

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_person_can_use_the_application(tmp_path):
    """UI-01, UI-06, RUN-25."""
    with running_stack(tmp_path, processes=("web", "runner", "worker")) as stack:
        link = json.loads(stack.manage("sign_in_link", "--json", "--base-url", stack.url))["url"]
        env = os.environ | {
            "AGENTX_E2E_URL": stack.url,
            "AGENTX_E2E_SIGN_IN": link,
            "AGENTX_E2E_MODEL": stack.model.root_url,
        }

        done = subprocess.run(
            ["npm", "run", "e2e"], cwd=ROOT / "frontend", env=env, capture_output=True, text=True
        )

    assert done.returncode == 0, f"{done.stdout[-12000:]}\n{done.stderr[-4000:]}"
