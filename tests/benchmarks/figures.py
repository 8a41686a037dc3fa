"""What a benchmark gives back, and how it is printed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentx.settings.env import read


@dataclass(frozen=True)
class Figure:
    """One measured figure. ``floor`` is the worst value that is good enough; ``most`` tells on which side it lies.

    ``baseline``: the same measured in the same run without the product, or None where there is no such thing.
    """

    figure: str
    value: float
    unit: str
    floor: float | None = None
    most: bool = True
    baseline: float | None = None

    @property
    def ok(self) -> bool:
        if self.floor is None:
            return True
        return self.value <= self.floor if self.most else self.value >= self.floor

    def as_json(self) -> dict[str, Any]:
        """The row of ``var/bench/<name>.json``."""
        row = asdict(self)
        del row["most"]
        return row | {"value": round(self.value, 3), "ok": self.ok}


def render(figures: Sequence[Figure]) -> str:
    """A table for the terminal."""
    rows = [("figure", "value", "floor", "baseline", "")]
    for item in figures:
        floor = "" if item.floor is None else f"{'≤' if item.most else '≥'} {item.floor:g}"
        baseline = "" if item.baseline is None else f"{item.baseline:,.1f}"
        rows.append(
            (item.figure, f"{item.value:,.1f} {item.unit}", floor, baseline, "ok" if item.ok else "MISSED")
        )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the values lie; 0.5 is the median."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def bench_texts() -> list[str]:
    """Texts of the dialogues in ``AGENTX_BENCH_DATA``; says so and gives nothing when there are none."""
    folder = read("AGENTX_BENCH_DATA")
    files = sorted(folder.glob("*.json")) if folder is not None else []
    texts = [
        message["text"]
        for path in files
        for dialogue in json.loads(path.read_text())
        for message in dialogue["messages"]
    ]
    if not texts:
        print("no dialogues in AGENTX_BENCH_DATA: synthetic text instead")
    return texts


class IdleClock:
    """The share of CPU time that was idle since it was made: figures from a busy machine mean little."""

    def __init__(self) -> None:
        self._idle, self._total = self._read()

    def share(self) -> float:
        """0 to 1, of all cores together."""
        idle, total = self._read()
        return (idle - self._idle) / max(1, total - self._total)

    @staticmethod
    def _read() -> tuple[int, int]:
        numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return numbers[3] + numbers[4], sum(numbers)


def idle_share(seconds: float = 1.0) -> float:
    """The share of CPU time that is idle over the next ``seconds``."""
    clock = IdleClock()
    time.sleep(seconds)
    return clock.share()
