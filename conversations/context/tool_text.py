"""Excerpts of text: both ends of what is not JSON, and the table of contents of markdown that is cut."""

from __future__ import annotations

import re
from collections.abc import Mapping

HEAD_SHARE = 0.75
"""Of an excerpt, the beginning gets this share and the end the rest, as with old messages."""

MAX_HEADINGS = 40
MAX_HEADING_CHARS = 100

_MARKER = re.compile(r"\n\[… ([0-9][0-9,]*) characters left out; the whole result can be fetched again …\]\n")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_MARKDOWN_FILE = re.compile(r"\.(?:md|mdx|markdown)(?:[?#].*)?\Z", re.IGNORECASE)
_NAMING_KEYS = ("path", "file_path", "filepath", "filename", "file_name", "url", "name", "title")
_TYPE_KEYS = ("format", "mime", "mime_type", "media_type", "content_type", "type")


def mark_omission(count: int) -> str:
    """The line that stands where ``count`` characters are missing."""
    return f"\n[… {count:,} characters left out; the whole result can be fetched again …]\n"


def excerpt_text(text: str, *, limit: int) -> str | None:
    """Head and tail of ``text`` around a marker, at most ``limit`` characters; None where the marker alone is longer.

    An excerpt of an excerpt counts what both have left out.
    """
    if len(text) <= limit:
        return text
    earlier = sum(_read_count(match) for match in _MARKER.finditer(text))
    room = limit - len(mark_omission(len(text) + earlier))
    if room < 0:
        return None
    head = int(room * HEAD_SHARE)
    end = len(text) - (room - head)
    omitted = end - head
    for match in _MARKER.finditer(text, head, end):
        omitted += _read_count(match) - len(match.group())
    return text[:head] + mark_omission(omitted) + text[end:]


def is_markdown(record: Mapping[str, object], key: str) -> bool:
    """Whether the text under ``key`` is markdown: by its key, or by the name or type that stands beside it."""
    if key == "markdown":
        return True
    named = (record.get(name) for name in _NAMING_KEYS)
    typed = (record.get(name) for name in _TYPE_KEYS)
    return any(isinstance(name, str) and _MARKDOWN_FILE.search(name) for name in named) or any(
        isinstance(kind, str) and "markdown" in kind.lower() for kind in typed
    )


def index_headings(text: str, *, start_line: int = 1) -> list[str]:
    """``"<line>: <heading>"`` for every heading, fenced code left aside. ``start_line``: the number of the first line."""
    found: list[str] = []
    fence = ""
    for number, line in enumerate(text.split("\n"), start=start_line):
        opening = _FENCE.match(line)
        if fence:
            if opening and opening.group(1).startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif opening:
            fence = opening.group(1)
        elif _HEADING.match(line):
            found.append(f"{number}: {_shorten(line.strip())}")
    return found


def _shorten(heading: str) -> str:
    return heading if len(heading) <= MAX_HEADING_CHARS else heading[: MAX_HEADING_CHARS - 1] + "…"


def _read_count(match: re.Match[str]) -> int:
    return int(match.group(1).replace(",", "")) if len(match.group(1)) <= 15 else 0
