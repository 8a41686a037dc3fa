"""The operator's view. What people wrote is shown only to those who may see content; nothing of it can be changed."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from conversations.models import Conversation, ProcessPresence, Run

VIEW_CONTENT = "conversations.view_content"
MESSAGES_SHOWN = 50
EXCERPT = 2_000


class ReadOnly(admin.ModelAdmin):
    """Rows to look at. They are made and changed by turns and by nobody else."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Conversation)
class ConversationAdmin(ReadOnly):
    list_display: ClassVar = ["id", "owner", "message_count", "total_tokens", "updated_at"]
    list_select_related: ClassVar = ["owner"]
    search_fields: ClassVar = ["=id", "owner__username"]
    list_per_page = 50

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        fields = ["id", "owner", "created_at", "updated_at", "message_count", "total_tokens"]
        return [*fields, "title", "newest_messages"] if request.user.has_perm(VIEW_CONTENT) else fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return self.get_fields(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        return super().get_queryset(request).select_related("owner")

    @admin.display(description="messages")
    def message_count(self, row: Conversation) -> int:
        return row.next_seq - 1

    @admin.display(description=f"newest {MESSAGES_SHOWN} messages")
    def newest_messages(self, row: Conversation) -> SafeString:
        newest = row.messages.order_by("-seq").only("seq", "role", "status", "content")[:MESSAGES_SHOWN]
        lines = ((message.seq, message.role, message.status, message.content[:EXCERPT]) for message in newest)
        return format_html("<table>{}</table>", format_html_join("", _row(4), lines))


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display: ClassVar = ["id", "status", "model", "created_at", "finished_at", "finish_reason"]
    list_filter: ClassVar = ["status"]
    search_fields: ClassVar = ["=id", "=conversation__id"]
    list_per_page = 50
    fields: ClassVar = [
        *(
            "id",
            "conversation_id",
            "status",
            "attempt",
            "model",
            "cancel_requested",
            "lease_owner",
            "lease_until",
        ),
        *("heartbeat_at", "created_at", "started_at", "finished_at", "finish_reason", "final_seq"),
        *("usage", "timings", "error", "allocation_table"),
    ]
    readonly_fields = fields

    @admin.display(description="allocation, in tokens")
    def allocation_table(self, row: Run) -> SafeString | str:
        grants = cast("dict[str, Any]", row.allocation or {}).get("grants", [])
        if not grants:
            return "-"
        columns = ("key", "asked", "granted", "action")
        lines: list[Any] = [tuple(grant.get(column, "") for column in columns) for grant in grants]
        head = format_html_join("", "<th>{}</th>", ((column,) for column in columns))
        return format_html("<table><tr>{}</tr>{}</table>", head, format_html_join("", _row(4), lines))


@admin.register(ProcessPresence)
class ProcessPresenceAdmin(ReadOnly):
    list_display: ClassVar = ["role", "instance", "seen_at"]


def _row(cells: int) -> str:
    return f"<tr>{'<td>{}</td>' * cells}</tr>"
