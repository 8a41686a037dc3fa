"""``manage.py explain_context <run>``: what the model saw in a run, as a table, without a word of what people wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentx.errors import AgentXError
from agentx.telemetry import redact_secrets
from conversations.selectors.explain import run_context, run_find
from conversations.wire_context import RunContextBody, ViewBody

# Words that people wrote stand in these fields; figures and ranges in all others.
CONTENT: dict[str, Any] = {
    "view": {
        "tail": True,
        "blocks": {"__all__": {"text"}},
        "segments": {"__all__": {"text", "identifiers"}},
    }
}


class Command(BaseCommand):
    help = "Show what the model saw in a run: blocks, epoch, what became of every message, cached tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", help="the run's id")
        parser.add_argument("--from-seq", type=int, help="fates from this message on")
        parser.add_argument("--through-seq", type=int, help="fates up to this message")
        parser.add_argument("--content", action="store_true", help="also print the texts, secrets out")
        parser.add_argument("--request", action="store_true", help="also print the request, secrets out")
        parser.add_argument("--json", action="store_true", help="print JSON instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run_id = UUID(options["run"])
        except ValueError:
            raise CommandError(f"{options['run']!r} is not the id of a run") from None
        try:
            body = run_context(
                run=run_find(run_id=run_id),
                from_seq=options["from_seq"],
                through_seq=options["through_seq"],
                request=options["request"],
            )
        except AgentXError as error:
            raise CommandError(error.message) from None
        if options["json"]:
            kept = body.model_dump(mode="json", exclude=None if options["content"] else CONTENT)
            self.stdout.write(_dump(_redact(kept)))
            return
        for line in _table(body):
            self.stdout.write(line)
        if options["content"]:
            for line in _texts(body.view):
                self.stdout.write(redact_secrets(line))
        if body.request is not None:
            self.stdout.write("\nrequest")
            self.stdout.write(_dump(body.request.messages))


def _table(body: RunContextBody) -> Iterable[str]:
    """The whole explanation in lines, without content."""
    view, allocation, epoch = body.view, body.view.allocation, body.view.epoch
    yield f"run {body.run_id} of conversation {body.conversation_id}, model {view.model}"
    yield (
        f"window {allocation.window:,}  budget {allocation.budget:,}  used {allocation.used:,}  "
        f"answer up to {allocation.response:,}  (tokens by {allocation.tokenizer} × {allocation.calibration:.3f})"
    )
    yield (
        f"epoch {epoch.number} ({epoch.reason}): left the view up to message {epoch.cut_seq}, "
        f"segments up to {epoch.covered_seq}, shortened up to {epoch.settled_seq}"
    )
    if view.repaired:
        yield f"cut by rule: {view.repaired}"
    yield ""
    yield from _columns(
        ["block", "asked", "granted", "action"],
        [(row.key, f"{row.asked:,}", f"{row.granted:,}", row.action) for row in allocation.rows],
    )
    yield ""
    yield from _columns(["messages", "what became of them"], _fate_rows(view))
    if view.segments:
        yield ""
        rows = [
            (_range(segment.from_seq, segment.through_seq), segment.kind, str(segment.level))
            for segment in view.segments
        ]
        yield from _columns(["segment", "kind", "level"], rows)
    if view.recalled:
        yield ""
        rows = [
            (str(item.turn), ", ".join(map(str, item.seqs)), f"{item.tokens:,}") for item in view.recalled
        ]
        yield from _columns(["recalled turn", "messages", "tokens"], rows)
    yield ""
    yield from _columns(["call", "prompt", "estimated", "cached", "predicted"], _call_rows(body))
    if body.request is not None:
        because = f": {body.request.reason}" if body.request.reason else ""
        yield f"\nrebuilt request: {body.request.rebuilt}{because}"


def _fate_rows(view: ViewBody) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    if view.fates.truncated:
        rows.append((f"before {view.fates.from_seq}", "not listed; ask with --from-seq and --through-seq"))
    rows += [(_range(item.from_seq, item.through_seq), ", ".join(item.fates)) for item in view.fates.ranges]
    return [*rows, (str(view.question_seq), "the question")]


def _call_rows(body: RunContextBody) -> list[tuple[str, ...]]:
    def shown(figure: int | None) -> str:
        return "-" if figure is None else f"{figure:,}"

    return [
        (
            str(call.call_index),
            shown(call.prompt_tokens),
            shown(call.estimated_prompt_tokens),
            shown(call.cached_tokens),
            shown(call.predicted_cached_tokens),
        )
        for call in body.calls
    ]


def _texts(view: ViewBody) -> Iterable[str]:
    """The words of the frozen blocks and of the tail."""
    withheld = "(withheld: quotes messages that were deleted since)"
    for block in view.blocks:
        yield f"\n{block.key}\n{withheld if block.text is None else block.text}"
    if view.tail != "":
        yield f"\ntail\n{withheld if view.tail is None else view.tail}"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Rows under their head, each column as wide as its widest cell."""
    table = [head, *rows]
    widths = [max(len(row[index]) for row in table) for index in range(len(head))]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _redact(value: Any) -> Any:
    if isinstance(value, str):
        return redact_secrets(value)
    if isinstance(value, dict):
        return {key: _redact(item) for key, item in value.items()}
    return [_redact(item) for item in value] if isinstance(value, list) else value


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
