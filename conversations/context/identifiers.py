"""Identifiers in a text: what a summary must not lose and must not invent.

Ids, links, paths, addresses, amounts, dates and versions are found by their shape alone, in any language.
"""

from __future__ import annotations

import re

# Order matters: what an earlier shape has taken is not taken apart again by a later one.
_SHAPES = re.compile(
    r"""
      (?P<url>https?://[^\s<>"'\])}]+)
    | (?P<mail>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)
    | (?P<uuid>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)
    | (?P<path>(?<![\w/])(?:[A-Za-z]:\\|~?/|\.{1,2}/)?(?:[\w.\-]+[/\\])+[\w.\-]*\w)
    | (?P<date>\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b)
    | (?P<amount>[€$£¥]\s?\d[\d.,\u202f]*\d|[€$£¥]\s?\d|\b\d[\d.,]*\s?(?:€|EUR|USD|GBP|CHF|JPY|%)(?!\w))
    | (?P<version>\bv?\d+\.\d+\.\d+(?:[-+][\w.]+)?\b|\bv\d+(?:\.\d+)*\b)
    | (?P<code>\b(?=[\w\-]*\d)(?=[\w\-]*[A-Za-z_])[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*\b)
    | (?P<file>\b[\w\-]+\.(?:md|txt|csv|json|pdf|py|ts|tsx|js|html|css|sql|yaml|yml|toml|log|png|jpg|docx|xlsx)\b)
    | (?P<number>(?<![\w.,])\d[\d.,]*\d(?![\w])|(?<![\w.,])\d{3,}(?!\w))
    """,
    re.VERBOSE,
)
_TRAILING = ".,;:!?"


def find_identifiers(text: str) -> tuple[str, ...]:
    """Every identifier in ``text`` exactly as it is written there, each once, in order of appearance."""
    found: dict[str, None] = {}
    for match in _SHAPES.finditer(text):
        value = match.group().rstrip(_TRAILING)
        if len(value) > 1 and len(value) <= 300:
            found.setdefault(value)
    return tuple(found)
