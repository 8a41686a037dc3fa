"""Addresses under ``/api/`` that concern conversations, the state of the system, and the schema."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, re_path

from conversations.api import context, schema, status, views


def unknown_address(request: HttpRequest) -> HttpResponse:
    """Everything else under ``/api/``: 404 as a problem, never a redirect that adds a slash."""
    raise Http404


urlpatterns = [
    path("conversations", views.ConversationsView.as_view()),
    path("conversations/<uuid:conversation_id>", views.ConversationView.as_view()),
    path("conversations/<uuid:conversation_id>/context", context.ContextPreviewView.as_view()),
    path("conversations/<uuid:conversation_id>/messages", views.MessagesView.as_view()),
    path("conversations/<uuid:conversation_id>/turns", views.TurnsView.as_view()),
    path("runs", views.RunsView.as_view()),
    path("runs/<uuid:run_id>", views.RunView.as_view()),
    path("runs/<uuid:run_id>/context", context.RunContextView.as_view()),
    path("runs/<uuid:run_id>/events", views.RunEventsView.as_view()),
    path("runs/<uuid:run_id>/steers", views.RunSteersView.as_view()),
    path("runs/<uuid:run_id>/stop", views.RunStopView.as_view()),
    path("usage", views.UsageView.as_view()),
    path("steers/<uuid:steer_id>", views.SteerView.as_view()),
    path("metrics", status.MetricsView.as_view()),
    path("health", status.HealthView.as_view()),
    path("ready", status.ReadyView.as_view()),
    path("status", status.StatusView.as_view()),
    path("schema/", schema.SchemaView.as_view(), name="schema"),
    path("docs/", schema.DocsView.as_view(), name="docs"),
    re_path(r"", unknown_address),
]
