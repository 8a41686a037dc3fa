"""Routes as operators write them, and the order in which they are tried."""

from __future__ import annotations

import pytest

from agentx.errors import KeyRejected, ModelStalled, NotAnEndpoint, ProviderUnreachable, RequestRefused
from agentx.llm.health import UNHEALTHY_SECONDS, RouteHealth, is_unavailable
from agentx.llm.routes import BadRoute, ModelRoute, read_routes

PRIMARY = ModelRoute(model="big", base_url="https://one.example/v1", api_key="sk-one")
SMALL = ModelRoute(model="small", base_url="https://one.example/v1", api_key="sk-one")
OTHER = ModelRoute(model="vendor/large@2026", base_url="https://two.example:8443/v1", api_key="sk-two")


def test_prv_01_candidates_come_in_the_order_they_were_written():
    """PRV-01: the primary first; an id alone is at its endpoint, another endpoint has a key of its own."""
    routes = read_routes(
        primary=PRIMARY,
        fallbacks=["small", "vendor/large@2026@https://two.example:8443/v1"],
        keys=["two.example:8443=sk-two"],
    )

    assert routes.chat == (PRIMARY, SMALL, OTHER)
    assert [route.host for route in routes.chat] == ["one.example", "one.example", "two.example:8443"]


def test_a_key_goes_to_no_other_host():
    routes = read_routes(
        primary=PRIMARY, fallbacks=["x@https://three.example/v1"], keys=["two.example:8443=sk-two"]
    )

    assert routes.chat[1].api_key == ""


def test_the_primary_endpoint_written_out_has_the_primary_key():
    [_, again] = read_routes(primary=PRIMARY, fallbacks=["small@https://one.example/v1/"]).chat

    assert (again.model, again.api_key) == ("small", "sk-one")


def test_keys_are_not_shown():
    assert "sk-" not in repr(read_routes(primary=PRIMARY, keys=["two.example=sk-two"]))


def test_prv_07_a_role_goes_before_the_candidates_of_conversations():
    """PRV-07: unset or ``inherit`` changes nothing, an explicit model wins, ``role:<name>`` is expanded."""
    routes = read_routes(
        primary=PRIMARY,
        fallbacks=["spare"],
        roles={"fast_utility": "role:summarizer", "summarizer": "small", "deep_reasoning": "inherit"},
    )

    spare = ModelRoute(model="spare", base_url=PRIMARY.base_url, api_key="sk-one")
    assert routes.for_role("summarizer") == (SMALL, PRIMARY, spare)
    assert routes.for_role("fast_utility") == (SMALL, PRIMARY, spare)
    assert routes.for_role("deep_reasoning") == (PRIMARY, spare)
    assert read_routes(primary=PRIMARY, roles={"summarizer": ""}).for_role("summarizer") == (PRIMARY,)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"fallbacks": ["@https://two.example/v1"]}, "'@https://two.example/v1' is not a model id"),
        ({"fallbacks": ["x@https://"]}, "'x@https://' is not a model id"),
        ({"fallbacks": [""]}, "an empty entry"),
        ({"fallbacks": ["x@https://me:secret@two.example/v1"]}, "'x@https://two.example/v1' is not"),
        ({"keys": ["sk-two"]}, "host=key"),
        ({"keys": ["https://two.example=sk-two"]}, "host=key"),
        ({"roles": {"summarizer": "role:nobody"}}, "'role:nobody' names no role"),
        (
            {"roles": {"summarizer": "role:fast_utility", "fast_utility": "role:summarizer"}},
            "the roles fast_utility, summarizer stand for each other",
        ),
    ],
)
def test_what_cannot_be_is_named_without_its_secrets(given, said):
    with pytest.raises(BadRoute) as refused:
        read_routes(primary=PRIMARY, **given)

    assert said in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "sk-two" not in str(refused.value)


def test_prv_02_a_route_that_failed_goes_to_the_end_for_thirty_seconds():
    """PRV-02."""
    now = [100.0]
    health = RouteHealth(clock=lambda: now[0])
    routes = (PRIMARY, SMALL, OTHER)

    def order() -> list[str]:
        return [route.model for route in health.order(routes, route_of=lambda route: route)]

    health.note_failure(PRIMARY)
    after_failure = order()
    now[0] += UNHEALTHY_SECONDS - 0.1
    still = order()
    now[0] += 0.1
    later = order()
    health.note_failure(SMALL)
    health.note_success(SMALL)

    assert UNHEALTHY_SECONDS == 30.0
    assert after_failure == still == ["small", "vendor/large@2026", "big"]
    assert later == order() == ["big", "small", "vendor/large@2026"]


def test_when_all_have_failed_their_order_is_the_written_one():
    health = RouteHealth()
    for route in (SMALL, PRIMARY):
        health.note_failure(route)

    assert health.order((PRIMARY, SMALL), route_of=lambda route: route) == (PRIMARY, SMALL)


@pytest.mark.parametrize(
    ("error", "unavailable"),
    [
        (ProviderUnreachable(), True),
        (KeyRejected(), True),
        (NotAnEndpoint(), True),
        (ProviderUnreachable(output_started=True), False),
        (RequestRefused(), False),
        (ModelStalled(), False),
    ],
)
def test_only_a_provider_that_does_not_serve_and_said_nothing_is_replaced(error, unavailable):
    assert is_unavailable(error) is unavailable
