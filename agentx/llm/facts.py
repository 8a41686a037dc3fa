"""What there is to know about a model, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PromptCaching = Literal["none", "automatic", "explicit"]
Source = Literal["override", "reported", "learned", "shipped", "default"]
Hosting = Literal["provider", "local", "bundled"]

DEFAULT_WINDOW = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """Facts about one model id. All sizes are in tokens.

    ``max_input_tokens``: the window. ``max_output_tokens``: None where it is not known to be less than the window.
    ``prompt_caching``: whether the provider reuses a common prefix by itself, only up to marked messages, or never.
    ``tokenizer``: the encoding the model itself uses; empty where it is another than those that can be had offline.
    ``strict_roles``: its template refuses two messages of one role in a row. ``image_tokens``: what an image costs.
    ``exact_counts``: its server can be asked how many tokens a request has. ``hosting``: who runs it: a provider,
    somebody's own llama.cpp server, or the product itself on a CPU. ``source``: what decided on the window.
    """

    name: str
    max_input_tokens: int = DEFAULT_WINDOW
    max_output_tokens: int | None = None
    prompt_caching: PromptCaching = "none"
    tokenizer: str = ""
    strict_roles: bool = False
    vision: bool = False
    tools: bool = True
    image_tokens: int = 1_100
    exact_counts: bool = False
    hosting: Hosting = "provider"
    source: Source = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOverride:
    """What an operator has decided about a model id; None leaves a fact to the other sources."""

    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    prompt_caching: PromptCaching | None = None
    strict_roles: bool | None = None
    vision: bool | None = None
    tools: bool | None = None
    image_tokens: int | None = None
