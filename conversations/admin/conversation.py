"""Conversations for the operator: figures for everybody on the staff, words for those who may see content."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from conversations.admin.base import VIEW_CONTENT, ReadOnly, table_row
from conversations.models import Conversation

MESSAGES_SHOWN = 50
EXCERPT = 2_000


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
        return format_html("<table>{}</table>", format_html_join("", table_row(4), lines))
