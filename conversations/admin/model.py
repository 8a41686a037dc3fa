"""Models for the operator: what is known of each, and the overrides that go before everything else."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from conversations.admin.base import table_row
from conversations.models import ModelRecord
from conversations.selectors.model_profiles import profile_read
from conversations.services.models import window_forget

OVERRIDES = (
    *("max_input_tokens", "max_output_tokens", "prompt_caching", "strict_roles", "vision", "tools"),
    *("image_tokens", "input_price", "cached_price", "output_price"),
)
LEARNED = ("learned_window", "learned_at", "calibration", "calibration_calls")


@admin.register(ModelRecord)
class ModelRecordAdmin(admin.ModelAdmin):
    """Rows are made by experience as well, so a model that was used is listed already."""

    list_display: ClassVar = ["model_id", "max_input_tokens", "learned_window", "calibration", "updated_at"]
    search_fields: ClassVar = ["model_id"]
    actions: ClassVar = ["forget_learned_windows"]
    show_full_result_count = False
    fieldsets: ClassVar = [
        (None, {"fields": ["model_id"]}),
        ("Overrides", {"fields": OVERRIDES, "description": "Empty: the next source decides."}),
        ("Learned", {"fields": LEARNED}),
        ("Effective", {"fields": ["effective"]}),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """A row keeps its model id: under another one, what was learned would be wrong."""
        return [*LEARNED, "effective", *([] if obj is None else ["model_id"])]

    def save_model(self, request: HttpRequest, obj: ModelRecord, form: ModelForm, change: bool) -> None:
        """Only what was edited is written, so that what runners learn meanwhile is not undone."""
        if change:
            obj.save(update_fields=[*form.changed_data, "updated_at"])
        else:
            obj.save()

    @admin.display(description="what turns go by, but for what its server reports")
    def effective(self, row: ModelRecord) -> SafeString | str:
        if not row.model_id:
            return "-"
        profile = profile_read(model=row.model_id, reported_window=None)
        lines = [(name.replace("_", " "), value) for name, value in asdict(profile).items()]
        return format_html("<table>{}</table>", format_html_join("", table_row(2), lines))

    @admin.action(description="Forget learned windows", permissions=["change"])
    def forget_learned_windows(self, request: HttpRequest, queryset: QuerySet[ModelRecord]) -> None:
        forgotten = sum(window_forget(model=row.model_id) for row in queryset)
        self.message_user(request, f"Learned windows forgotten: {forgotten}", messages.SUCCESS)
