"""The installation's models: the routes of ``agentx.llm.routes`` from the settings, and what this process knows of their health."""

from __future__ import annotations

from django.conf import settings

from agentx.llm.health import RouteHealth
from agentx.llm.routes import ModelRoute, Role, Routes, read_routes

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
