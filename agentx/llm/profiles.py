"""Facts per model, from the best source there is: the operator, the provider, experience, the shipped table, a guess."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache
from typing import TypeVar

import httpx2
import structlog

from agentx.llm.facts import DEFAULT_WINDOW, ModelProfile, ProfileOverride, Source
from agentx.llm.shipped import shipped_profile
from agentx.llm.tls import tls_context

log = structlog.get_logger(__name__)

T = TypeVar("T")

# A server that has the figure answers at once; a runner must not wait for one that has not.
_ASK_SECONDS = 2.0
# Vision encoders of local models cut an image into many more patches than hosted ones charge for.
LOCAL_IMAGE_TOKENS = 4_096


def resolve_profile(
    *, model: str, override: ProfileOverride | None, reported: int | None, learned: int | None
) -> ModelProfile:
    """The profile of a model id.

    Its window: the operator's override, else what the provider reports (never above a learned window), else the learned
    window, else the shipped table, else 32,768 with one warning per id. Other facts: the override, else the table, else
    what is true of the server. ``reported``: tokens a llama.cpp server says it gives. ``learned``: tokens from an
    earlier overflow error.
    """
    profile = _base_profile(model, reported=reported)
    window, source = _resolve_window(profile, override=override, reported=reported, learned=learned)
    profile = replace(profile, max_input_tokens=window, source=source)
    return profile if override is None else _apply_override(profile, override)


def _base_profile(model: str, *, reported: int | None) -> ModelProfile:
    """All facts but the window. Only llama.cpp's server reports one, so that a report tells what the server can do."""
    shipped = shipped_profile(model)
    if not reported:
        return shipped or ModelProfile(name=model)
    # Many templates of local models insist on turns that alternate, and merging messages of one role harms none.
    base = shipped or ModelProfile(name=model, strict_roles=True, image_tokens=LOCAL_IMAGE_TOKENS)
    hosting = base.hosting if base.hosting == "bundled" else "local"
    return replace(base, prompt_caching="automatic", exact_counts=True, hosting=hosting)


def _resolve_window(
    profile: ModelProfile, *, override: ProfileOverride | None, reported: int | None, learned: int | None
) -> tuple[int, Source]:
    if override is not None and override.max_input_tokens:
        return override.max_input_tokens, "override"
    if reported and not (learned and learned < reported):
        return reported, "reported"
    if learned:
        return learned, "learned"
    if profile.source == "default":
        _warn_unknown(profile.name)
    return profile.max_input_tokens, profile.source


def _apply_override(profile: ModelProfile, override: ProfileOverride) -> ModelProfile:
    return replace(
        profile,
        max_output_tokens=_chosen(override.max_output_tokens, profile.max_output_tokens),
        prompt_caching=_chosen(override.prompt_caching, profile.prompt_caching),
        strict_roles=_chosen(override.strict_roles, profile.strict_roles),
        vision=_chosen(override.vision, profile.vision),
        tools=_chosen(override.tools, profile.tools),
        image_tokens=_chosen(override.image_tokens, profile.image_tokens),
    )


def _chosen(mine: T | None, theirs: T) -> T:
    return theirs if mine is None else mine


@cache
def _warn_unknown(model: str) -> None:
    log.warning(
        "unknown_model",
        model=model,
        assumed_window=DEFAULT_WINDOW,
        remedy="set its window in the admin under model records, or set CONTEXT_WINDOW_TOKENS",
    )


async def reported_window(*, base_url: str, api_key: str) -> int | None:
    """The window a llama.cpp server was started with, in tokens; None for other servers or when it does not answer.

    Its ``/v1/models`` also has a figure, but that is what the model was trained with, not what the server gives.
    """
    root = base_url.rstrip("/").removesuffix("/v1")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with (
            asyncio.timeout(_ASK_SECONDS),
            httpx2.AsyncClient(verify=tls_context(), trust_env=False) as client,
        ):
            answer = await client.get(f"{root}/props", headers=headers)
            window = answer.json()["default_generation_settings"]["n_ctx"]
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, ValueError, LookupError, TypeError):
        return None
    return window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None
