"""People and their tokens for the operator. Tokens can be looked at and deleted; their secrets are not kept anywhere."""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.http import HttpRequest

from agentx.accounts.models import ApiToken, User


@admin.register(User)
class AccountAdmin(UserAdmin):
    fieldsets = (*UserAdmin.fieldsets, ("Display", {"fields": ("display_name",)}))  # type: ignore[misc]


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):
    list_display: ClassVar = [
        "prefix",
        "name",
        "user",
        "scope",
        "created_at",
        "last_used_at",
        "expires_at",
        "revoked_at",
    ]
    list_select_related: ClassVar = ["user"]
    search_fields: ClassVar = ["prefix", "user__username"]
    exclude: ClassVar = ["digest"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # made here, its secret would have been seen by somebody else

    def has_change_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False
