"""Sixty real turns on the bundled llama.cpp model: how much of its prompts it took from its cache, by its own account.

The whole product takes part: web process, runner, PostgreSQL, Valkey, the model's server. Answers are short. Once with the
settings as shipped, where sixty short turns fit the window, and once with a prompt target small enough for several cuts.
"""

from __future__ import annotations

import statistics
import tempfile
from itertools import pairwise
from pathlib import Path

from agentx.embedded.llama import MODEL_ID, EmbeddedLlama
from tests.benchmarks.figures import Figure
from tests.benchmarks.material.bundled import BundledTurn, breaks, cached_share, cuts, turns_take
from tests.stack import running_stack

TURNS = 60
PROMPT_TOKENS = 2_400
ANSWER_TOKENS = 64


def run() -> list[Figure]:
    """Measure; about ten minutes on two cores."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedLlama(data_dir=Path(folder) / "model") as model:
        small = _turns(Path(folder) / "small", model.url, PROMPT_BUDGET_TOKENS=str(PROMPT_TOKENS))
        shipped = _turns(Path(folder) / "shipped", model.url)
    return [
        *_figures(f"prompt target {PROMPT_TOKENS:,}", small, with_cuts=True),
        *_figures("settings as shipped", shipped, with_cuts=False),
    ]


def _turns(folder: Path, url: str, **env: str) -> list[BundledTurn]:
    folder.mkdir()
    with running_stack(
        folder,
        LLM_BASE_URL=url,
        LLM_MODEL=MODEL_ID,
        CONTEXT_WINDOW_TOKENS="0",
        RESPONSE_RESERVE_TOKENS=str(ANSWER_TOKENS),
        MODEL_STALL_SECONDS="120",
        **env,
    ) as stack:
        return turns_take(stack=stack, count=TURNS)


def _figures(name: str, turns: list[BundledTurn], *, with_cuts: bool) -> list[Figure]:
    moved = cuts(turns)
    figures = [
        Figure(
            f"the server's own cached ÷ prompt tokens, {TURNS} turns, {name}",
            100 * cached_share(turns),
            "%",
            80,
            most=False,
        ),
        Figure(f"prefix breaks outside an epoch change, {name}", len(breaks(turns)), "breaks", 0),
        Figure(f"largest prompt, {name}", max(turn.prompt for turn in turns), "tokens"),
        Figure(f"cuts in {TURNS} turns, {name}", len(moved), "cuts", 2 if with_cuts else None, most=False),
    ]
    if with_cuts and moved:
        between = statistics.median(later - earlier for earlier, later in pairwise([0, *moved]))
        figures.append(Figure(f"turns between two cuts, median, {name}", between, "turns", 5, most=False))
    return figures
