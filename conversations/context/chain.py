"""The hash chain over a transcript, so that one stored hash vouches for every message before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any


def hash_message(
    *,
    previous: str,
    seq: int,
    role: str,
    content: str,
    parts: Sequence[Any],
    tool_calls: Sequence[Mapping[str, Any]],
    tool_call_id: str,
) -> str:
    """sha256 as 64 hex digits over the previous hash and the canonical form of one message.

    ``previous`` is ``""`` for the first message. Canonical: JSON with sorted keys and no spaces, in UTF-8, of the
    fields that make up what was said; marks, counts and times are left out, since they may change.
    """
    canonical = json.dumps(
        [seq, role, content, list(parts), list(tool_calls), tool_call_id],
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )
    return hashlib.sha256(f"{previous}\n{canonical}".encode()).hexdigest()
