"""Which model is asked, and which ones stand in for it: candidates in order, for a conversation and for each role.

A route is written as a model id, which is asked for at the primary endpoint, or as ``model@https://host/v1``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args
from urllib.parse import urlsplit

Role = Literal["fast_utility", "summarizer", "deep_reasoning"]
ROLES: tuple[Role, ...] = get_args(Role)

INHERIT = "inherit"
_ROLE_PREFIX = "role:"


class BadRoute(ValueError):
    """A route, role or key that cannot be; the text names it and never holds a key."""


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """One model at one endpoint."""

    model: str
    base_url: str
    api_key: str = field(default="", repr=False)

    @property
    def host(self) -> str:
        """The endpoint's host, with its port where that is not the usual one."""
        return urlsplit(self.base_url).netloc.rsplit("@", 1)[-1]


@dataclass(frozen=True, slots=True)
class Routes:
    """All routes of an installation. ``chat``: the primary and what stands in for it; ``roles``: those that were set."""

    chat: tuple[ModelRoute, ...]
    roles: Mapping[str, ModelRoute]

    def for_role(self, role: Role) -> tuple[ModelRoute, ...]:
        """The candidates of a role: its own model first where one is set, then those of conversations."""
        own = self.roles.get(role)
        return self.chat if own is None else (own, *(route for route in self.chat if route != own))


def read_routes(
    *,
    primary: ModelRoute,
    fallbacks: Sequence[str] = (),
    roles: Mapping[str, str] | None = None,
    keys: Sequence[str] = (),
) -> Routes:
    """The routes that settings name. Raises ``BadRoute``.

    ``roles``: a route, ``role:<name>`` for what another role has, or nothing or ``inherit`` for the conversation's
    candidates. ``keys``: ``host=key`` for endpoints other than the primary's; only the host that a key was given for is
    ever sent it.
    """
    by_host = dict(_read_key(entry) for entry in keys)
    chat = (primary, *(_read_route(entry, primary=primary, keys=by_host) for entry in fallbacks))
    given = {role: text.strip() for role, text in (roles or {}).items()}
    expanded = {role: _expand(role, given) for role in given}
    return Routes(
        chat=tuple(dict.fromkeys(chat)),
        roles={
            role: _read_route(text, primary=primary, keys=by_host) for role, text in expanded.items() if text
        },
    )


def _read_route(entry: str, *, primary: ModelRoute, keys: Mapping[str, str]) -> ModelRoute:
    text = entry.strip()
    model, found, address = text.partition("@http")
    if not found:
        if not model:
            raise BadRoute("an empty entry is no model")
        return ModelRoute(model=model, base_url=primary.base_url, api_key=primary.api_key)
    base_url = f"http{address}"
    parts = urlsplit(base_url)
    if not model or not parts.hostname or parts.scheme not in ("http", "https") or "@" in parts.netloc:
        raise BadRoute(f"{_without_secret(text)!r} is not a model id or model@https://host/v1")
    same = base_url.rstrip("/") == primary.base_url.rstrip("/")
    key = primary.api_key if same else keys.get(parts.netloc, "")
    return ModelRoute(model=model, base_url=base_url, api_key=key)


def _read_key(entry: str) -> tuple[str, str]:
    host, found, key = entry.strip().partition("=")
    if not found or not host or not key or "/" in host:
        raise BadRoute("a key is written as host=key, with the host as it stands in the route")
    return host, key


def _expand(role: str, given: Mapping[str, str]) -> str:
    """What a role comes to once it stands for itself: a route, or "" for the conversation's candidates."""
    seen = {role}
    text = given.get(role, "")
    while text.startswith(_ROLE_PREFIX):
        name = text.removeprefix(_ROLE_PREFIX)
        if name not in ROLES:
            raise BadRoute(f"{text!r} names no role; the roles are {', '.join(ROLES)}")
        if name in seen:
            raise BadRoute(f"the roles {', '.join(sorted({*seen, name}))} stand for each other")
        seen.add(name)
        text = given.get(name, "")
    return "" if text == INHERIT else text


def _without_secret(text: str) -> str:
    """An entry as it may be shown: without what stands before the host, which may be a password."""
    model, found, address = text.partition("@http")
    scheme, _, rest = address.partition("://")
    return f"{model}{found}{scheme}://{rest.rsplit('@', 1)[-1]}" if found else model
