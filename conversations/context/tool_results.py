"""The form in which a tool's result is sent to the model: whole while it is small, then less of it but never broken.

A result cut at a character is no longer JSON, and a model that reads half a table believes it was the whole. So rows
and texts shrink inside the structure, every gap says how much is missing, and what names the missing rows stays, so that
they can be asked for. Nothing is computed: no figure appears here that the tool did not give, except counts of what
was left out.
"""

from __future__ import annotations

from conversations.context.tool_json import (
    Json,
    NestedTooDeepError,
    clean_text,
    dump_json,
    measure_json,
    normalise_json,
    read_json,
)
from conversations.context.tool_projection import OverrunError, ProjectionCache, find_full_size, project_json
from conversations.context.tool_text import excerpt_text, mark_omission

RESULT_MAX_CHARS = 12_000
"""Characters of one tool result, about 3,000 tokens of English: three of them and a question fit a window of 16,000."""

UNREADABLE = "[a result nested too deeply to be shown; the whole result can be fetched again]"

_UNBOUNDED = 1 << 62


class ResultDoesNotFit(ValueError):
    """What may not be left out of a result is longer than the limit. ``needs`` and ``limit`` in characters."""

    def __init__(self, *, needs: int, limit: int) -> None:
        self.needs, self.limit = needs, limit
        super().__init__(
            f"the tool result needs at least {needs:,} characters, but only {limit:,} are left for it"
        )


def compact_tool_result(
    *, content: str, artifact: object = None, model_context: object = None, limit: int = RESULT_MAX_CHARS
) -> str:
    """The form of a result that is sent, of at most ``limit`` characters. No argument is changed.

    ``model_context``: the tool's own focused view, an object, a list or text, which stands in for the rest.
    ``artifact``: the whole result; it counts if it is an object or a list. ``content``: the text of the result.
    The first of the three that says anything is taken; content that is JSON is treated like an artifact.

    Structured results stay valid JSON. Collections keep their leading rows and texts their beginning, as much of both as
    fits, and each that was cut has a note beside it: ``<field>_compaction``, of the shape ``{"returned", "retained",
    "omitted", "omitted_refs", "notice"}`` for rows and ``{"omitted_chars", "headings", "further_headings"}`` for texts.
    ``omitted_refs`` has one list for each identity of the omitted rows, each value once; consecutive
    numbers are ``{"first", "last", "count"}``. A top-level list that was cut is ``{"data": [...], "data_compaction": {...}}``.
    Identities, dates, totals, filters, source references and frontmatter are never cut.
    Other text becomes its head and tail around a marker.

    The same arguments give the same characters; a larger limit never shows less. Compacting the result again adds up what was
    left out.

    Raises ``ResultDoesNotFit`` when the least that may be sent is longer than ``limit``.
    """
    value, text = _choose(content, artifact, model_context)
    if value is None:
        if len(text) <= limit:
            return text
        value = read_json(text)
    if value is None:
        excerpt = excerpt_text(text, limit=limit)
        if excerpt is None:
            raise ResultDoesNotFit(needs=min(len(text), len(mark_omission(len(text)))), limit=limit)
        return excerpt
    return _fit_json(value, limit)


def _choose(content: str, artifact: object, model_context: object) -> tuple[Json, str]:
    """The structured value to send, or else None and the text."""
    if isinstance(model_context, str) and model_context:
        return None, clean_text(model_context)
    blank = not content.strip()
    too_deep = False
    for candidate in (model_context, artifact):
        if not candidate or not _is_structure(candidate):
            continue
        try:
            return normalise_json(candidate), ""
        except NestedTooDeepError:
            too_deep = True
    if blank and too_deep:
        return None, UNREADABLE
    if blank and _is_structure(artifact) and not artifact:
        return normalise_json(artifact), ""
    return None, clean_text(content)


def _is_structure(value: object) -> bool:
    return isinstance(value, (dict, list))


def _fit_json(value: Json, limit: int) -> str:
    """The whole, or the projection of the largest size that fits.

    The sizes that are tried depend on the value alone, and whether one fits can only turn from no to yes as the
    limit grows. So a larger limit ends at the same size or a larger one, even where the length does not grow with the size.
    """
    if measure_json(value, stop=limit) <= limit:
        whole = dump_json(value)
        if len(whole) <= limit:
            return whole
    cache = ProjectionCache()
    best: str | None = None
    fits, fails = -1, find_full_size(value)
    while fails - fits > 1:
        size = (fits + fails) // 2
        text = _write(value, size=size, limit=limit, cache=cache)
        if text is None:
            fails = size
        else:
            fits, best = size, text
    if best is None:
        least = dump_json(project_json(value, size=0, room=_UNBOUNDED, cache=cache))
        raise ResultDoesNotFit(needs=len(least), limit=limit)
    return best


def _write(value: Json, *, size: int, limit: int, cache: ProjectionCache) -> str | None:
    try:
        text = dump_json(project_json(value, size=size, room=limit, cache=cache))
    except OverrunError:
        return None
    return text if len(text) <= limit else None
