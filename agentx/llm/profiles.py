"""Facts per model: how much it takes and what it can do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import cache

import httpx2
import structlog

log = structlog.get_logger(__name__)

DEFAULT_WINDOW = 32_768
# A server that has the figure answers at once; a runner must not wait for one that has not.
_ASK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """``max_input_tokens``: the window, prompt and answer together."""

    name: str
    max_input_tokens: int


# Windows as their makers publish them, each with where.
_SHIPPED = {
    profile.name: profile
    for profile in (
        ModelProfile("smollm2-135m-instruct", 8_192),  # max_position_embeddings of the model's config.json
        ModelProfile("gpt-4o", 128_000),  # OpenAI's model page: context window
        ModelProfile("gpt-4o-mini", 128_000),  # the same
        ModelProfile("gpt-4.1", 1_047_576),  # the same
        ModelProfile("gpt-4.1-mini", 1_047_576),  # the same
    )
}


def is_known(model: str) -> bool:
    """Whether the shipped table has the model, so that its window can be relied on without asking the provider."""
    return model in _SHIPPED


def profile_for(model: str, *, reported_window: int | None = None) -> ModelProfile:
    """The profile of a model id: what the provider reports, else the shipped table, else 32,768 and one warning."""
    shipped = _SHIPPED.get(model)
    if reported_window:
        return replace(shipped or ModelProfile(model, reported_window), max_input_tokens=reported_window)
    if shipped is None:
        _warn_unknown(model)
        return ModelProfile(model, DEFAULT_WINDOW)
    return shipped


@cache
def _warn_unknown(model: str) -> None:
    log.warning(
        "unknown_model", model=model, assumed_window=DEFAULT_WINDOW, remedy="set CONTEXT_WINDOW_TOKENS"
    )


async def reported_window(*, base_url: str, api_key: str) -> int | None:
    """The window a llama.cpp server was started with, in tokens; None for other servers or when it does not answer.

    Its ``/v1/models`` also has a figure, but that is what the model was trained with, not what the server gives.
    """
    root = base_url.rstrip("/").removesuffix("/v1")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with asyncio.timeout(_ASK_SECONDS), httpx2.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"{root}/props", headers=headers)
            window = answer.json()["default_generation_settings"]["n_ctx"]
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, ValueError, LookupError, TypeError):
        return None
    return window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None
