"""What the operator's pages have in common. What people wrote is shown only to those who may see content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

VIEW_CONTENT = "conversations.view_content"
# Rows that a list can be paged through; older ones are found by searching. Counting more of them costs more than it tells.
MOST_LISTED = 10_000


class BoundedPaginator(Paginator):
    """Pages over the first 10,000 rows, so that the cost of a list does not grow with its table."""

    @cached_property
    def count(self) -> int:  # type: ignore[override]
        return self.object_list[:MOST_LISTED].count()  # type: ignore[union-attr,call-arg]


class ReadOnly(admin.ModelAdmin):
    """Rows to look at. They are made and changed by turns and by nobody else."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def table_row(cells: int) -> str:
    """A format string for one row of an HTML table."""
    return f"<tr>{'<td>{}</td>' * cells}</tr>"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> SafeString:
    """An HTML table. Cells are escaped, but for those that are markup already."""
    names = format_html_join("", "<th>{}</th>", ((name,) for name in head))
    return format_html(
        "<table><tr>{}</tr>{}</table>", names, format_html_join("", table_row(len(head)), rows)
    )
