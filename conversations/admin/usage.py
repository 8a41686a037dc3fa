"""Model calls for the operator: what was asked of which model for what, and what it cost."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest

from conversations.admin.base import BoundedPaginator, ReadOnly
from conversations.models import ModelCall
from conversations.selectors.usage import summed

SHOWN_SUMS = 60


@admin.register(ModelCall)
class ModelCallAdmin(ReadOnly):
    """The list can be narrowed by its filters; above it stand the sums of what the filters leave, by day and model."""

    change_list_template = "admin/conversations/modelcall/change_list.html"
    list_display: ClassVar = [
        *("created_at", "purpose", "model", "provider", "prompt_tokens", "cached_tokens", "output_tokens"),
        *("cost", "cost_source", "finish_reason", "user"),
    ]
    list_filter: ClassVar = ["purpose", "cost_source", "created_at", "model"]
    list_select_related: ClassVar = ["user"]
    search_fields: ClassVar = ["=run__id", "=conversation__id", "=user__username"]
    date_hierarchy = "created_at"
    list_per_page = 50
    paginator = BoundedPaginator

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        answer = super().changelist_view(request, extra_context)
        shown = getattr(answer, "context_data", None) or {}
        if "cl" in shown:  # a bad filter is answered by a redirect, which lists nothing
            shown["sums"] = summed(shown["cl"].queryset.order_by())[:SHOWN_SUMS]
        return answer
