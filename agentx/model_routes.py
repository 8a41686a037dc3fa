"""The installation's models: the routes of ``agentx.llm.routes`` from the settings, and what this process knows of their health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from agentx.llm.health import RouteHealth
from agentx.llm.routes import ModelRoute, Role, Routes, read_routes

if TYPE_CHECKING:
    from agentx.llm.client import ChatModel

route_health = RouteHealth()


def model_routes() -> Routes:
    """All routes. They were read once at start-up, where a bad one is an error."""
    fallbacks = settings.LLM_FALLBACKS if settings.LLM_FALLBACK_ENABLED else []
    return read_routes(
        primary=ModelRoute(
            model=settings.LLM_MODEL, base_url=settings.LLM_BASE_URL, api_key=settings.LLM_API_KEY
        ),
        fallbacks=fallbacks,
        roles=settings.LLM_ROLES,
        keys=settings.LLM_ENDPOINT_KEYS,
    )


def chat_routes() -> tuple[ModelRoute, ...]:
    """The candidates for a conversation, the primary first."""
    return model_routes().chat


def role_routes(role: Role) -> tuple[ModelRoute, ...]:
    """The candidates for a role."""
    return model_routes().for_role(role)


def route_model(route: ModelRoute, *, read_timeout: float, max_connections: int) -> ChatModel:
    """A client of the model at ``route``, to be closed by the caller. ``read_timeout``: seconds of silence on the wire."""
    # Not at the top: what speaks to models takes 46 MB, and the web process, which asks none, imports this module too.
    from agentx.llm.client import ChatModelSettings, chat_model_make

    return chat_model_make(
        ChatModelSettings(
            base_url=route.base_url,
            api_key=route.api_key,
            model=route.model,
            connect_timeout=settings.LLM_CONNECT_TIMEOUT_SECONDS,
            read_timeout=read_timeout,
            max_connections=max_connections,
        ),
        fast=settings.LLM_FAST_STREAM,
    )
