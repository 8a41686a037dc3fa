"""What the person at the terminal sees: one line for each step, the same facts in plain text when piped."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TextIO


class Console:
    """Writes lines. A terminal that has gone away (SIGHUP, closed pipe) must not stop an orderly end, so it is ignored."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._is_terminal = self._stream.isatty()

    def begin(self, text: str) -> None:
        """Say what is being waited for; only a terminal, where the line is replaced by the outcome, shows it."""
        if self._is_terminal:
            self._write(f"{self._clear()}… {text}", end="")

    def done(self, text: str, *, seconds: float | None = None) -> None:
        took = "" if seconds is None else f"  {seconds:.1f} s"
        self._line("✓", "ok", f"{text}{took}")

    def warn(self, text: str) -> None:
        self._line("!", "warning:", text)

    def fail(self, text: str) -> None:
        self._line("✗", "error:", text)

    def say(self, text: str) -> None:
        self._write(f"{self._clear()}{text}")

    def _line(self, sign: str, word: str, text: str) -> None:
        self._write(f"{self._clear()}{sign if self._is_terminal else word} {text}")

    def _clear(self) -> str:
        return "\r\x1b[K" if self._is_terminal else ""

    def _write(self, text: str, *, end: str = "\n") -> None:
        with suppress(OSError, ValueError):
            try:
                print(text, end=end, file=self._stream, flush=True)
            except UnicodeEncodeError:
                print(text.encode("ascii", "replace").decode(), end=end, file=self._stream, flush=True)
