"""What stands behind a conversation's view, for the operator: its epochs, digest segments and evidence.

The lists must open at once whatever the tables hold: no row's texts are read for them, and no table is counted.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from agentx.telemetry import redact_secrets
from conversations.admin.base import VIEW_CONTENT, BoundedPaginator, ReadOnly, table
from conversations.models import CompactionDigest, ContextEpoch, EvidenceLedger
from conversations.selectors.digests import epoch_state
from conversations.selectors.rebuild import WITHHELD, may_show_block
from conversations.selectors.withdrawn import Withdrawn, withdrawn_read


class ContextAdmin(ReadOnly):
    """``figures`` are for everybody on the staff, ``words`` for those who may see content. ``heavy``: columns that lists
    do not read.
    """

    paginator = BoundedPaginator
    list_per_page = 50
    figures: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[tuple[str, ...]] = ()
    heavy: ClassVar[tuple[str, ...]] = ()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [*self.figures, *(self.words if request.user.has_perm(VIEW_CONTENT) else ())]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return self.get_fields(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        one = request.resolver_match is not None and "object_id" in request.resolver_match.kwargs
        return rows if one else rows.defer(*self.heavy)


@admin.register(ContextEpoch)
class ContextEpochAdmin(ContextAdmin):
    list_display: ClassVar = ["id", "conversation_id", "number", "reason", "coverage", "created_at"]
    list_filter: ClassVar = ["reason"]
    search_fields: ClassVar = ["=conversation__id"]
    ordering: ClassVar = ["-pk"]
    heavy = ("blocks", "segments", "evidence")
    figures = (
        *("conversation_id", "number", "reason", "coverage", "cut_seq", "covered_seq", "settled_seq"),
        *("revision", "model", "fingerprint", "history_tokens_before", "history_tokens_after"),
        *("messages_evicted", "created_at", "block_table", "segment_table"),
    )
    words = ("block_texts", "evidence_texts")

    @admin.display(description="coverage")
    def coverage(self, row: ContextEpoch) -> str:
        return describe_coverage(cut_seq=row.cut_seq, covered_seq=row.covered_seq)

    @admin.display(description="blocks, in tokens")
    def block_table(self, row: ContextEpoch) -> SafeString:
        columns = ("key", "asked", "tokens", "action")
        return table(columns, ([block.get(column, "") for column in columns] for block in _list(row.blocks)))

    @admin.display(description="segments")
    def segment_table(self, row: ContextEpoch) -> SafeString:
        columns = ("from_seq", "through_seq", "kind", "level")
        return table(columns, ([item.get(column, "") for column in columns] for item in _list(row.segments)))

    @admin.display(description="texts of the blocks")
    def block_texts(self, row: ContextEpoch) -> SafeString:
        withdrawn = deleted_since(row, through_seq=row.cut_seq)
        blocks = epoch_state(row).blocks
        shown = (
            (block.key, redact_secrets(block.content))
            if may_show_block(block, cut_seq=row.cut_seq, withdrawn=withdrawn)
            else (block.key, WITHHELD)
            for block in blocks
        )
        return format_html_join("", "<h4>{}</h4><pre>{}</pre>", shown)

    @admin.display(description="evidence at the cut")
    def evidence_texts(self, row: ContextEpoch) -> SafeString:
        buckets = cast("dict[str, Any]", row.evidence or {}).get("buckets", {})
        return bucket_texts(buckets, withdrawn=deleted_since(row, through_seq=row.cut_seq))


@admin.register(CompactionDigest)
class CompactionDigestAdmin(ContextAdmin):
    list_display: ClassVar = [
        *("id", "conversation_id", "coverage", "level", "kind", "status", "tokens", "source_tokens"),
        "created_at",
    ]
    list_filter: ClassVar = ["status", "kind", "reason"]
    search_fields: ClassVar = ["=conversation__id"]
    ordering: ClassVar = ["-pk"]
    heavy = ("text", "identifiers", "usage")
    figures = (
        *("conversation_id", "coverage", "messages", "level", "kind", "reason", "status", "reject_reason"),
        *("tokens", "source_tokens", "prompt_version", "source_hash", "model", "duration_ms", "usage"),
        "created_at",
    )
    words = ("text_shown", "identifiers_shown")

    @admin.display(description="messages covered")
    def coverage(self, row: CompactionDigest) -> str:
        return f"{row.from_seq} to {row.through_seq}"

    @admin.display(description="text")
    def text_shown(self, row: CompactionDigest) -> SafeString:
        return format_html("<pre>{}</pre>", redact_secrets(row.text) if self._may_show(row) else WITHHELD)

    @admin.display(description="identifiers beside the text")
    def identifiers_shown(self, row: CompactionDigest) -> str:
        return (redact_secrets(", ".join(row.identifiers)) or "-") if self._may_show(row) else WITHHELD

    def _may_show(self, row: CompactionDigest) -> bool:
        withdrawn = deleted_since(row, through_seq=row.through_seq)
        return not withdrawn.deletes_within(row.from_seq, row.through_seq)


@admin.register(EvidenceLedger)
class EvidenceLedgerAdmin(ContextAdmin):
    list_display: ClassVar = ["conversation_id", "coverage", "version", "omitted", "updated_at"]
    list_select_related: ClassVar = ["conversation"]
    search_fields: ClassVar = ["=conversation__id"]
    ordering: ClassVar = ["-pk"]
    heavy = ("buckets",)
    figures = (
        *("conversation_id", "coverage", "cursor", "revision", "up_to_date", "version", "omitted"),
        *("updated_at", "bucket_table"),
    )
    words = ("evidence_texts",)

    @admin.display(description="coverage")
    def coverage(self, row: EvidenceLedger) -> str:
        return f"up to message {row.cursor} of {row.conversation.next_seq - 1}"

    @admin.display(description="as of the newest edit", boolean=True)
    def up_to_date(self, row: EvidenceLedger) -> bool:
        return row.revision == row.conversation.revision

    @admin.display(description="entries")
    def bucket_table(self, row: EvidenceLedger) -> SafeString:
        buckets = cast("dict[str, Any]", row.buckets)
        return table(("bucket", "entries"), ((key, len(buckets[key])) for key in buckets))

    @admin.display(description="evidence")
    def evidence_texts(self, row: EvidenceLedger) -> SafeString | str:
        if not self.up_to_date(row):
            return "(from before an edit: it is made again after the next turn)"
        return bucket_texts(row.buckets, withdrawn=Withdrawn())


def describe_coverage(*, cut_seq: int, covered_seq: int) -> str:
    """In words, what has left the view and how much of it segments stand for."""
    if not cut_seq:
        return "nothing has left the view"
    if covered_seq >= cut_seq:
        return f"messages 1 to {cut_seq} left the view, all in segments"
    return f"messages 1 to {cut_seq} left the view, in segments up to {covered_seq}"


def deleted_since(row: ContextEpoch | CompactionDigest, *, through_seq: int) -> Withdrawn:
    """What has been deleted up to a seq since the row was made. One query, or two after an edit."""
    if not row.conversation.revision:
        return Withdrawn()
    return withdrawn_read(conversation_id=row.conversation_id, through_seq=through_seq, moment=row.created_at)


def bucket_texts(buckets: Any, *, withdrawn: Withdrawn) -> SafeString:
    """The ledger's entries, but for those of deleted messages; secrets out."""
    rows = (
        (
            key,
            entry["seq"],
            WITHHELD if withdrawn.deletes_any([entry["seq"]]) else redact_secrets(entry["text"]),
        )
        for key, entries in cast("dict[str, Any]", buckets).items()
        for entry in entries
    )
    return table(("bucket", "message", "words"), rows)


def _list(value: Any) -> list[dict[str, Any]]:
    return value or []
