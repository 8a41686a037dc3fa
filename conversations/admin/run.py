"""Runs and the processes that work on them, for the operator."""

from __future__ import annotations

import json
from typing import Any, ClassVar, cast

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agentx.errors import AgentXError
from conversations.admin.base import VIEW_CONTENT, ReadOnly, table
from conversations.admin.context import describe_coverage
from conversations.models import ProcessPresence, Run
from conversations.selectors.explain import run_context

FATE_RANGES_SHOWN = 200


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display: ClassVar = ["id", "status", "model", "created_at", "finished_at", "finish_reason"]
    list_filter: ClassVar = ["status"]
    search_fields: ClassVar = ["=id", "=conversation__id"]
    list_per_page = 50
    figures: ClassVar = [
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
        *("usage", "timings", "error", "allocation_table", "what_the_model_saw"),
    ]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [*self.figures, *(["request_text"] if request.user.has_perm(VIEW_CONTENT) else [])]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return self.get_fields(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        return super().get_queryset(request).select_related("user_message")

    @admin.display(description="allocation, in tokens")
    def allocation_table(self, row: Run) -> SafeString | str:
        allocation = cast("dict[str, Any]", row.allocation or {})
        grants = allocation.get("grants", [])
        if not grants:
            return "-"
        columns = ("key", "asked", "granted", "action")
        budget = allocation["budget"]
        # A meter draws itself: the pages may have no styles of their own.
        lines = (
            (
                *(grant.get(column, "") for column in columns),
                format_html('<meter max="{}" value="{}"></meter>', budget, grant.get("granted", 0)),
            )
            for grant in grants
        )
        total = ("used", "", allocation["used"], f"of {budget}", "")
        return table((*columns, "of the budget"), [*lines, total])

    @admin.display(description="what the model saw")
    def what_the_model_saw(self, row: Run) -> SafeString | str:
        try:
            body = run_context(run=row)
        except AgentXError as error:
            return error.message
        view, epoch = body.view, body.view.epoch
        turns = sorted({passage.turn for passage in view.recalled})
        facts = [
            ("epoch", f"{epoch.number} ({epoch.reason})"),
            ("coverage", describe_coverage(cut_seq=epoch.cut_seq, covered_seq=epoch.covered_seq)),
            ("recalled turns", ", ".join(map(str, turns)) or "none"),
            *((f"call {call.call_index}", _cached(call)) for call in body.calls),
        ]
        ranges = view.fates.ranges[-FATE_RANGES_SHOWN:]
        fates = ((f"{item.from_seq} to {item.through_seq}", ", ".join(item.fates)) for item in ranges)
        return format_html(
            "{}{}", table(("of the view", ""), facts), table(("messages", "what became of them"), fates)
        )

    @admin.display(description="the request, secrets out")
    def request_text(self, row: Run) -> SafeString | str:
        try:
            request = run_context(run=row, request=True).request
        except AgentXError as error:
            return error.message
        if request is None:
            return "-"
        because = f": {request.reason}" if request.reason else ""
        text = json.dumps(request.messages, ensure_ascii=False, indent=2)
        return format_html("<p>rebuilt: {}{}</p><pre>{}</pre>", request.rebuilt, because, text)


def _cached(call: Any) -> str:
    def shown(figure: int | None) -> str:
        return "unknown" if figure is None else f"{figure:,}"

    return (
        f"prompt {shown(call.prompt_tokens)}, estimated {call.estimated_prompt_tokens:,}; "
        f"cached {shown(call.cached_tokens)}, predicted {shown(call.predicted_cached_tokens)}"
    )


@admin.register(ProcessPresence)
class ProcessPresenceAdmin(ReadOnly):
    list_display: ClassVar = ["role", "instance", "seen_at"]
