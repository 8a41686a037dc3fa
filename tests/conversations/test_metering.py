"""What calls cost, where the figure is from, and what is reported when a part of it is not known."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.test import Client

from agentx.llm.messages import UsageReport
from agentx.llm.prices import Prices, estimate_cost
from agentx.llm.usage import read_usage
from agentx.threads import in_db_thread
from conversations.contracts import CallUsage, Outcome
from conversations.models import Conversation, Message, ModelCall, ModelRecord, Run
from conversations.services.cancel import run_cancel
from conversations.services.commit import run_settle
from conversations.services.conversations import conversation_create, conversation_delete
from conversations.services.metering import model_calls_store, price_calls, sum_usage
from conversations.services.submit import turn_submit
from conversations.wire import REFUSED
from tests.scripted_model import scripts

OPENAI = "https://api.openai.com/v1"
USAGE = UsageReport(prompt_tokens=1_000, cached_tokens=200, output_tokens=100, reasoning_tokens=40)


def call(**fields) -> CallUsage:
    values = {
        "call_index": 0,
        "model": "gpt-4o",
        "prompt_tokens": 1_000,
        "cached_tokens": 200,
        "output_tokens": 100,
        "reasoning_tokens": 40,
        "estimated_prompt_tokens": 990,
        "first_token_ms": 5,
        "total_ms": 10,
        "finish_reason": "stop",
        "base_url": OPENAI,
    }
    return CallUsage(**{**values, **fields})


def test_prv_11_a_published_price_is_that_of_the_endpoint():
    """PRV-11: $2.50 for a million fresh tokens, $1.25 cached, $10 of output (OpenAI's price list for gpt-4o)."""
    cost = estimate_cost(model="gpt-4o", base_url=OPENAI, usage=USAGE, own=None)

    assert cost == Decimal("0.00325")


@pytest.mark.parametrize(
    ("model", "base_url"), [("gpt-4o", "http://127.0.0.1:8080/v1"), ("no-such-model", OPENAI)]
)
def test_an_unknown_price_is_unknown_and_not_nothing(model, base_url):
    assert estimate_cost(model=model, base_url=base_url, usage=USAGE, own=None) is None


def test_an_operators_price_goes_before_the_published_one():
    own = Prices(input=Decimal(3), output=Decimal(30), cached=Decimal(1))

    assert estimate_cost(model="gpt-4o", base_url=OPENAI, usage=USAGE, own=own) == Decimal("0.0056")
    free = Prices(input=Decimal(0), output=Decimal(0))
    assert estimate_cost(model="mine", base_url="http://127.0.0.1/v1", usage=USAGE, own=free) == 0


def test_tokens_that_were_not_reported_are_not_priced():
    unreported = UsageReport(
        prompt_tokens=1_000, cached_tokens=None, output_tokens=None, reasoning_tokens=None
    )

    assert estimate_cost(model="gpt-4o", base_url=OPENAI, usage=unreported, own=None) is None


@pytest.mark.parametrize(
    ("payload", "cost"),
    [
        ({"cost": 0.0012}, 0.0012),
        ({"cost": 0}, 0.0),
        ({"response_cost": 0.5}, 0.5),
        ({"cost": -1}, None),
        ({"cost": "0.1"}, None),
        ({"cost": float("nan")}, None),
        ({"cost": True}, None),
        ({"cost": None, "response_cost": 0.5}, 0.5),
        ({"cost": 0.25, "cost_details": {"upstream_inference_cost": 0.25}}, 0.25),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}}, 0.5),
        ({"cost": 0.25, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}}, 0.75),
        ({"cost": 0, "is_byok": True}, None),
        ({}, None),
    ],
)
def test_what_the_provider_has_billed_is_read(payload, cost):
    assert read_usage({"prompt_tokens": 1, "completion_tokens": 1, **payload}).cost == cost


@pytest.mark.django_db
def test_prv_11_a_billed_figure_beats_the_estimate():
    """PRV-11."""
    billed, estimated = price_calls((call(billed=0.002), call(call_index=1)))

    assert (billed.cost, billed.source) == (Decimal("0.002"), "provider")
    assert (estimated.cost, estimated.source) == (Decimal("0.00325"), "estimate")
    assert sum_usage((billed,)).cost_source == "provider"
    total = sum_usage((billed, estimated))
    assert (total.cost, total.cost_source, total.prompt_tokens) == (0.00525, "estimate", 2_000)


@pytest.mark.django_db
def test_a_part_is_never_shown_as_a_total():
    """Spec of metering: totals are null, the known part is reported, ``usage_complete`` is false."""
    silent = call(call_index=1, prompt_tokens=None, cached_tokens=None, output_tokens=None)

    total = sum_usage(price_calls((call(), silent)))

    assert (total.prompt_tokens, total.output_tokens, total.cost) == (None, None, None)
    assert (total.usage_complete, total.cost_source) == (False, None)
    assert total.known is not None
    assert total.known.model_dump() == {
        "calls": 2,
        "reported": 1,
        "prompt_tokens": 1_000,
        "output_tokens": 100,
        "cost": 0.00325,
    }


@pytest.mark.django_db
def test_a_call_without_a_price_leaves_the_cost_of_the_others_known():
    """The tokens are totals, the cost is none."""
    unpriced = call(call_index=1, model="no-such-model")

    total = sum_usage(price_calls((call(billed=0.5), unpriced)))

    assert (total.usage_complete, total.prompt_tokens) == (True, 2_000)
    assert (total.cost, total.cost_source) == (None, None)
    assert total.known is not None
    assert total.known.model_dump() == {
        "calls": 2,
        "reported": 2,
        "prompt_tokens": 2_000,
        "output_tokens": 200,
        "cost": 0.5,
    }


@pytest.mark.django_db
def test_a_whole_total_has_no_part_beside_it():
    assert sum_usage(price_calls((call(billed=0.5),))).known is None
    assert sum_usage(()).known is None


@pytest.mark.django_db
def test_a_refused_call_costs_nothing_and_hides_nothing():
    refused = call(finish_reason=REFUSED, prompt_tokens=None, cached_tokens=None, output_tokens=None)

    priced = price_calls((refused, call(call_index=1)))

    assert [item.cost for item in priced] == [Decimal(0), Decimal("0.00325")]
    assert sum_usage(priced).prompt_tokens == 1_000


@pytest.mark.django_db(transaction=True)
async def test_a_turn_after_a_rate_limit_has_a_whole_total(runner, turns, scripted):
    scripted.script(scripts.rate_limited())

    await turns.say("Hello")

    run, answer = await in_db_thread(lambda: (Run.objects.get(), Message.objects.get(role="assistant")))
    calls = await in_db_thread(lambda: list(ModelCall.objects.order_by("call_index")))
    assert [row.finish_reason for row in calls] == ["refused", "stop"]
    assert (run.usage["usage_complete"], run.usage["prompt_tokens"]) == (True, calls[1].prompt_tokens)
    assert answer.metadata["usage"]["cost"] is None


@pytest.mark.django_db(transaction=True)
async def test_an_answer_says_what_it_cost_and_who_says_so(runner, turns, scripted):
    """RUN-11: on the message, in the run and in the last event."""
    usage = {"prompt_tokens": 900, "completion_tokens": 10, "total_tokens": 910, "cost": 0.0042}
    scripted.script(scripts.replace(scripts.answer("ok"), usage=usage))

    events = await turns.say("Hello")

    run, answer = await in_db_thread(lambda: (Run.objects.get(), Message.objects.get(role="assistant")))
    [done] = [event["data"] for event in events if event["type"] == "done"]
    for told in (run.usage, answer.metadata["usage"], done["usage"]):
        assert (told["cost"], told["cost_source"]) == (0.0042, "provider")


@pytest.mark.django_db(transaction=True)
async def test_a_turn_of_two_calls_adds_up_both(runner, turns, scripted):
    """RUN-11: the call for a tool is paid for like the answer."""
    asked = scripts.tool_calls(("current_date", "{}"))
    first = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105, "cost": 0.25}
    second = {"prompt_tokens": 200, "completion_tokens": 7, "total_tokens": 207, "cost": 0.5}
    scripted.script(
        scripts.replace(asked, usage=first), scripts.replace(scripts.answer("Tuesday"), usage=second)
    )

    await turns.say("What day is it?")

    usage = (await in_db_thread(lambda: Run.objects.get())).usage
    assert (usage["prompt_tokens"], usage["output_tokens"], usage["cost"]) == (300, 12, 0.75)
    assert (usage["usage_complete"], usage["cost_source"], usage["known"]) == (True, "provider", None)


@pytest.mark.django_db(transaction=True)
async def test_a_call_that_was_cut_off_makes_the_turn_a_part(runner, turns, scripted):
    """A failed call is stored like any other; what nobody reported is not made up from its chunks."""
    asked = scripts.tool_calls(("current_date", "{}"))
    first = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105, "cost": 0.25}
    scripted.script(scripts.replace(asked, usage=first), scripts.disconnect("It is Tuesday and"))

    await turns.say("What day is it?")

    run = await in_db_thread(lambda: Run.objects.get())
    rows = await in_db_thread(
        lambda: list(ModelCall.objects.order_by("call_index").values_list("output_tokens", "cost"))
    )
    assert (run.status, rows) == ("failed", [(5, Decimal("0.25")), (None, None)])
    assert (run.usage["output_tokens"], run.usage["cost"], run.usage["usage_complete"]) == (None, None, False)
    assert run.usage["known"] == {
        "calls": 2,
        "reported": 1,
        "prompt_tokens": 100,
        "output_tokens": 5,
        "cost": 0.25,
    }


@pytest.mark.django_db(transaction=True)
async def test_a_stopped_call_is_stored_without_made_up_tokens(runner, turns, scripted):
    accepted = await turns.submit("[[scripted-n1000-tps20]]")
    following = asyncio.create_task(turns.follow(accepted.run.id))
    while not (await in_db_thread(lambda: Run.objects.get().partial_text)):
        await asyncio.sleep(0.05)

    await in_db_thread(run_cancel, user_id=turns.user_id, run_id=accepted.run.id)
    await asyncio.wait_for(following, 5)

    row = await in_db_thread(lambda: ModelCall.objects.get())
    assert (row.run_id, row.purpose, row.output_tokens, row.cost) == (accepted.run.id, "chat", None, None)


@pytest.mark.django_db(transaction=True)
def test_a_turn_calibrates_by_its_first_call_and_the_ratio_in_that_calls_estimate(user):
    """2,000 estimated with a ratio of 2 are 1,000 without; 1,500 reported make 1.5. Later calls have other ratios."""
    conversation_id = conversation_create(user_id=user.pk).id
    accepted = turn_submit(user_id=user.pk, conversation_id=conversation_id, content="Hello")
    refused = call(finish_reason=REFUSED, prompt_tokens=None, output_tokens=None, calibration=4.0)
    first = call(call_index=1, prompt_tokens=1_500, estimated_prompt_tokens=2_000, calibration=2.0)
    last = call(call_index=2, prompt_tokens=3_000, estimated_prompt_tokens=3_000, calibration=1.0)
    outcome = Outcome(
        status="completed",
        message_status="complete",
        text="Hi",
        finish_reason="stop",
        truncated=False,
        had_thinking=False,
        calls=(refused, first, last),
        error=None,
        first_token_ms=5,
        total_ms=10,
    )

    token = uuid4()
    Run.objects.update(status="running", lease_token=token)
    run_settle(
        run_id=accepted.run.id,
        conversation_id=conversation_id,
        token=token,
        last_seq=1,
        outcome=outcome,
    )

    record = ModelRecord.objects.get()
    assert (record.model_id, record.calibration, record.calibration_calls) == ("gpt-4o", 1.5, 1)
    assert Conversation.objects.get().calibration == 1.5


@pytest.fixture
def client(user) -> Client:
    made = Client()
    made.force_login(user)
    return made


@pytest.fixture
def spent(user):
    """Two conversations with calls of three kinds."""
    ModelRecord.objects.create(model_id="priced", input_price=1, output_price=1)
    ids = [conversation_create(user_id=user.pk).id for _ in range(2)]
    for conversation_id, purpose, calls in (
        (ids[0], "chat", (call(billed=0.5), call(call_index=1, finish_reason=REFUSED))),
        (ids[0], "title", (call(model="priced", base_url=""),)),
        (ids[1], "chat", (call(model="unpriced"),)),
    ):
        model_calls_store(
            priced=price_calls(calls),
            user_id=user.pk,
            conversation_id=conversation_id,
            run_id=None,
            purpose=purpose,
        )
    return ids


def _usage(client: Client, **query) -> dict:
    answer = client.get("/api/usage", query)
    assert answer.status_code == 200, answer.content
    return json.loads(answer.content)


@pytest.mark.django_db
def test_prv_21_usage_is_reported_by_day_model_and_purpose(client, spent):
    """PRV-21."""
    report = _usage(client)

    rows = [
        (row["model"], row["purpose"], row["calls"], row["cost"], row["cost_source"])
        for row in report["rows"]
    ]
    assert rows == [
        ("gpt-4o", "chat", 1, 0.5, "provider"),
        ("priced", "title", 1, 0.0011, "estimate"),
        ("unpriced", "chat", 1, None, None),
    ]
    assert (report["days"], report["calls"], report["unpriced_calls"], report["cost"]) == (14, 3, 1, 0.5011)


@pytest.mark.django_db
def test_usage_can_be_narrowed_to_a_conversation_of_ones_own(client, spent, other_user):
    theirs = conversation_create(user_id=other_user.pk).id

    assert [row["model"] for row in _usage(client, conversation=str(spent[1]))["rows"]] == ["unpriced"]
    assert client.get("/api/usage", {"conversation": str(theirs)}).status_code == 404
    assert client.get("/api/usage", {"days": "91"}).status_code == 400


@pytest.mark.django_db
def test_only_the_days_asked_for_are_reported(client, spent):
    """PRV-21: 14 days where nothing is said, 1 to 90."""
    old = ModelCall.objects.filter(model="unpriced")
    old.update(created_at=Now() - timedelta(days=15))

    assert [row["model"] for row in _usage(client)["rows"]] == ["gpt-4o", "priced"]
    assert [row["model"] for row in _usage(client, days="16")["rows"]] == ["gpt-4o", "priced", "unpriced"]
    assert client.get("/api/usage", {"days": "0"}).status_code == 400


@pytest.mark.django_db
def test_others_see_nothing_of_it(spent, other_user):
    stranger = Client()
    stranger.force_login(other_user)

    assert _usage(stranger)["rows"] == []


@pytest.mark.django_db(transaction=True)
def test_what_was_spent_outlives_the_conversation(client, user, spent):
    for conversation_id in spent:
        conversation_delete(user_id=user.pk, conversation_id=conversation_id)

    assert (_usage(client)["calls"], Conversation.objects.count()) == (3, 0)


@pytest.mark.django_db
def test_the_operator_sees_all_calls_with_their_sums(spent, make_user):
    client = Client()
    client.force_login(make_user(is_staff=True, is_superuser=True))

    page = client.get("/admin/conversations/modelcall/?purpose__exact=title")

    assert page.status_code == 200
    assert b"<td>priced</td><td>title</td><td>1</td>" in page.content
    assert b"0.0011 (estimate)" in page.content
    assert b"unpriced" not in page.content.split(b"Sums of what is listed")[1].split(b"</table>")[0]
