"""What is known of a model: read in one query, learned from errors and reports, overridden by the operator."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import django.db
import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.db import transaction
from django.test import Client
from structlog.testing import capture_logs

from agentx.llm.facts import ModelProfile
from conversations.admin import ModelRecordAdmin
from conversations.context.budget import BudgetRules
from conversations.models import Conversation, ModelRecord
from conversations.selectors.model_profiles import (
    KnownModel,
    budget_rules,
    conversation_ratio,
    model_read,
    planned_window,
    profile_read,
)
from conversations.services.conversations import conversation_create
from conversations.services.locks import conversation_lock
from conversations.services.models import CALIBRATION, calibration_note, window_forget, window_learn
from tests.agentx.llm.asked import profile_for

pytestmark = pytest.mark.django_db

MODEL = "gpt-4o"


@pytest.fixture
def conversation_id(user):
    return conversation_create(user_id=user.pk).id


def _note(conversation_id, *, reported, estimated=1_000, model=MODEL) -> None:
    """As the end of a turn does it: the conversation is locked first, and saved by its owner."""
    with transaction.atomic():
        conversation = conversation_lock(conversation_id=conversation_id)
        if calibration_note(conversation=conversation, model=model, reported=reported, estimated=estimated):
            conversation.save(update_fields=CALIBRATION)


def test_a_model_is_read_with_one_query(django_assert_num_queries):
    ModelRecord.objects.create(
        model_id=MODEL, max_input_tokens=64_000, vision=False, calibration=1.3, calibration_calls=7
    )

    with django_assert_num_queries(1):
        known = model_read(model=MODEL, reported_window=None)

    assert (known.profile.max_input_tokens, known.profile.source) == (64_000, "override")
    assert known.profile.vision is False
    assert known.profile.prompt_caching == "automatic"
    assert (known.ratio, known.ratio_calls) == (1.3, 7)


def test_without_a_row_the_shipped_table_speaks(django_assert_num_queries):
    with django_assert_num_queries(1):
        assert profile_read(model=MODEL, reported_window=None) == profile_for(MODEL)


@pytest.mark.parametrize(
    ("override", "learned", "reported", "window", "source"),
    [
        (64_000, 8_000, 16_000, 64_000, "override"),
        (None, 8_000, 16_000, 8_000, "learned"),
        (None, 8_000, 4_096, 4_096, "reported"),
        (None, None, 16_000, 16_000, "reported"),
        (None, 8_000, None, 8_000, "learned"),
        (None, None, None, 128_000, "shipped"),
    ],
)
def test_the_sources_of_a_window_go_in_order(override, learned, reported, window, source):
    ModelRecord.objects.create(model_id=MODEL, max_input_tokens=override, learned_window=learned)

    profile = profile_read(model=MODEL, reported_window=reported)

    assert (profile.max_input_tokens, profile.source) == (window, source)


def test_an_overflow_teaches_a_smaller_window_and_says_so():
    with capture_logs() as logs:
        assert window_learn(model=MODEL, window=32_000)

    assert profile_read(model=MODEL, reported_window=None).max_input_tokens == 32_000
    assert ModelRecord.objects.get().learned_at is not None
    assert [(entry["event"], entry["window"], entry["before"]) for entry in logs] == [
        ("window_learned", 32_000, 128_000)
    ]


@pytest.mark.parametrize("window", [None, 0, -1, 786, 1_023, 128_000, 200_000])
def test_a_window_that_is_missing_absurd_or_not_smaller_is_not_learned(window):
    assert not window_learn(model=MODEL, window=window)

    assert not ModelRecord.objects.filter(learned_window__isnull=False).exists()


def test_a_learned_window_only_shrinks():
    assert window_learn(model=MODEL, window=32_000)
    assert not window_learn(model=MODEL, window=64_000)
    assert not window_learn(model=MODEL, window=32_000)
    assert window_learn(model=MODEL, window=16_000)

    assert profile_read(model=MODEL, reported_window=None).max_input_tokens == 16_000


def test_a_window_that_a_server_reported_smaller_already_is_not_learned():
    assert not window_learn(model=MODEL, window=16_000, reported_window=8_192)


def test_a_window_below_an_override_is_learned_once_and_the_override_still_decides():
    ModelRecord.objects.create(model_id=MODEL, max_input_tokens=64_000)

    with capture_logs() as logs:
        assert [window_learn(model=MODEL, window=32_000) for _ in range(2)] == [True, False]

    assert profile_read(model=MODEL, reported_window=None).max_input_tokens == 64_000
    assert [entry["overridden"] for entry in logs] == [True]


def test_a_learned_window_can_be_forgotten():
    window_learn(model=MODEL, window=32_000)

    assert [window_forget(model=MODEL), window_forget(model=MODEL)] == [True, False]
    assert profile_read(model=MODEL, reported_window=None).max_input_tokens == 128_000


def test_a_report_teaches_the_conversation_and_the_model(conversation_id):
    _note(conversation_id, reported=2_600)

    conversation, row = Conversation.objects.get(), ModelRecord.objects.get()
    assert (conversation.calibration, conversation.calibration_calls, conversation.calibration_model) == (
        2.6,
        1,
        MODEL,
    )
    assert (row.model_id, row.calibration, row.calibration_calls) == (MODEL, 2.0, 1)


def test_a_report_that_means_nothing_costs_no_query_and_changes_nothing(
    conversation_id, django_assert_num_queries
):
    row = Conversation.objects.get(pk=conversation_id)
    nothing = [(None, 1_000), (0, 1_000), (150, 1_000), (1_000, 100)]

    with django_assert_num_queries(0):
        for reported, estimated in nothing:
            assert not calibration_note(conversation=row, model=MODEL, reported=reported, estimated=estimated)

    assert Conversation.objects.get().calibration is None
    assert not ModelRecord.objects.exists()


def test_another_model_begins_anew_in_the_conversation(conversation_id):
    for _ in range(5):
        _note(conversation_id, reported=2_000)
    _note(conversation_id, reported=1_200, model="o3")

    conversation = Conversation.objects.get()
    assert (conversation.calibration, conversation.calibration_calls) == (1.2, 1)
    assert conversation.calibration_model == "o3"
    assert ModelRecord.objects.get(model_id=MODEL).calibration_calls == 5


def test_a_conversations_own_ratio_goes_before_the_models_and_another_models_does_not(conversation_id):
    fresh = Conversation.objects.get()
    _note(conversation_id, reported=3_000)
    known, settled = model_read(model=MODEL, reported_window=None), Conversation.objects.get()

    assert conversation_ratio(known=known, conversation=fresh) == 2.0
    assert conversation_ratio(known=known, conversation=settled) == 3.0
    assert conversation_ratio(known=KnownModel(profile_for("o3")), conversation=settled) == 1.0


@pytest.mark.django_db(transaction=True)
def test_twenty_reports_at_once_all_count_and_none_deadlocks(user):
    ids = [conversation_create(user_id=user.pk).id for _ in range(4)]
    together = threading.Barrier(8)

    def note(number: int) -> None:
        try:
            if number < 8:
                together.wait()
            _note(ids[number % 4], reported=1_100)
        finally:
            django.db.connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(note, range(20)))

    assert ModelRecord.objects.get().calibration_calls == 20
    assert ModelRecord.objects.get().calibration == pytest.approx(1.1)
    assert sorted(Conversation.objects.values_list("calibration_calls", flat=True)) == [5, 5, 5, 5]


@pytest.mark.django_db(transaction=True)
def test_windows_learned_at_once_leave_the_smallest():
    windows = [8_000, 32_000, 16_000, 64_000, 12_000, 9_000]

    def learn(window: int) -> None:
        try:
            window_learn(model=MODEL, window=window)
        finally:
            django.db.connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(learn, windows))

    assert ModelRecord.objects.get().learned_window == 8_000


def test_unset_limits_depend_on_who_hosts_the_model(settings):
    settings.PROMPT_BUDGET_TOKENS = settings.CONTEXT_RECALL_MAX_TOKENS = None
    profiles = [
        profile_for(MODEL),
        profile_for("nobody-knows-this", reported_window=16_384),
        profile_for("smollm2-135m-instruct"),
    ]

    rules = [budget_rules(profile) for profile in profiles]

    assert [(rule.prompt_target, rule.recall_max) for rule in rules] == [
        (0, 1_000),
        (16_000, 1_000),
        (16_000, 400),
    ]
    assert [rule.exact_counts for rule in rules] == [False, True, False]


def test_settings_become_the_rules_of_a_budget(settings):
    settings.PROMPT_BUDGET_TOKENS, settings.CONTEXT_MAX_INPUT_TOKENS = 0, 50_000
    settings.RESPONSE_RESERVE_TOKENS, settings.SAFETY_RESERVE_TOKENS = 4_096, 2_048
    settings.CONTEXT_VERBATIM_RATIO, settings.CONTEXT_LOW_WATERMARK = 0.8, 0.4
    settings.CONTEXT_RECALL_MAX_TOKENS, settings.CONTEXT_RECALL_SHARE = 0, 0.2
    settings.CONTEXT_LEDGER_TOKENS, settings.DIGEST_MAX_TOKENS = 1_800, 900

    assert budget_rules(profile_for("smollm2-135m-instruct", reported_window=8_192)) == BudgetRules(
        response_reserve=4_096,
        safety_reserve=2_048,
        verbatim_ratio=0.8,
        prompt_target=0,
        spend_guard=50_000,
        low_watermark=0.4,
        recall_max=0,
        recall_share=0.2,
        ledger_max=1_800,
        digest_max=900,
        exact_counts=True,
    )


def test_ctx_36_the_response_reserve_is_the_answers_limit_and_never_more_than_the_model_writes(settings):
    """CTX-36."""
    settings.RESPONSE_RESERVE_TOKENS = 4_096

    small = ModelProfile(name="m", max_output_tokens=1_000)
    assert budget_rules(profile_for(MODEL)).response_reserve == 4_096
    assert budget_rules(small).response_reserve == 1_000


def test_a_forced_window_goes_before_the_profiles(settings):
    settings.CONTEXT_WINDOW_TOKENS = 0
    assert planned_window(profile_for(MODEL)) == 128_000

    settings.CONTEXT_WINDOW_TOKENS = 4_096
    assert planned_window(profile_for(MODEL)) == 4_096


def _staff(make_user, *codenames: str) -> Client:
    staff = make_user(is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(staff)
    return client


def _form(row: ModelRecord, **changes) -> dict:
    unknown = {"strict_roles": "unknown", "vision": "unknown", "tools": "unknown", "prompt_caching": ""}
    return {"max_input_tokens": "", "max_output_tokens": "", "image_tokens": "", **unknown, **changes}


def _page(row: ModelRecord) -> str:
    return f"/admin/conversations/modelrecord/{row.pk}/change/"


def test_an_operator_overrides_a_fact_and_what_was_learned_meanwhile_stays(make_user):
    row = ModelRecord.objects.create(model_id=MODEL, calibration=1.4, calibration_calls=9)
    client = _staff(make_user, "view_modelrecord", "change_modelrecord")
    shown = client.get(_page(row)).content.decode()

    answer = client.post(_page(row), _form(row, max_input_tokens="64000", vision="false"))

    assert "128000" in shown  # the effective window
    assert answer.status_code == 302
    row.refresh_from_db()
    assert (row.max_input_tokens, row.vision, row.tools, row.prompt_caching) == (64_000, False, None, None)
    assert (row.calibration, row.calibration_calls) == (1.4, 9)


def test_an_operators_save_does_not_undo_what_was_learned_while_the_page_was_open(rf, admin_user):
    """The row is read before the form is filled in, and a runner learns in between."""
    page = ModelRecordAdmin(ModelRecord, admin.site)
    row = ModelRecord.objects.create(model_id=MODEL)
    request = rf.post("/")
    request.user = admin_user
    form = page.get_form(request, row)(_form(row, image_tokens="765"), instance=row)
    ModelRecord.objects.update(learned_window=32_000, calibration=1.4, calibration_calls=9)

    assert form.is_valid()
    page.save_model(request, form.instance, form, change=True)

    row = ModelRecord.objects.get()
    assert row.image_tokens == 765
    assert (row.learned_window, row.calibration, row.calibration_calls) == (32_000, 1.4, 9)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_input_tokens", "1023"),
        ("max_input_tokens", "lots"),
        ("max_output_tokens", "15"),
        ("image_tokens", "-1"),
        ("image_tokens", "100001"),
        ("prompt_caching", "sometimes"),
    ],
)
def test_an_override_that_makes_no_sense_is_refused_and_nothing_changes(make_user, field, value):
    row = ModelRecord.objects.create(model_id=MODEL)
    client = _staff(make_user, "view_modelrecord", "change_modelrecord")

    answer = client.post(_page(row), _form(row, **{field: value}))

    assert answer.status_code == 200
    assert field in answer.context["adminform"].form.errors
    row.refresh_from_db()
    assert getattr(row, field) is None


def test_an_operator_adds_a_model_that_was_never_used(make_user):
    client = _staff(make_user, "view_modelrecord", "add_modelrecord")

    answer = client.post(
        "/admin/conversations/modelrecord/add/",
        _form(ModelRecord(), model_id="mine", max_input_tokens="4096"),
    )

    assert answer.status_code == 302
    assert profile_read(model="mine", reported_window=None).max_input_tokens == 4_096


def test_an_operator_makes_the_product_forget_learned_windows(make_user):
    window_learn(model=MODEL, window=32_000)
    row = ModelRecord.objects.get()
    action = {"action": "forget_learned_windows", "_selected_action": [row.pk]}

    only_looking = _staff(make_user, "view_modelrecord")
    only_looking.post("/admin/conversations/modelrecord/", action)
    row.refresh_from_db()
    assert row.learned_window == 32_000

    client = _staff(make_user, "view_modelrecord", "change_modelrecord")
    client.post("/admin/conversations/modelrecord/", action)
    row.refresh_from_db()
    assert row.learned_window is None
