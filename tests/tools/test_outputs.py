"""The gate: what is too long is stored whole and once, and what goes on is short, says where the rest is, and parses."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentx.errors import NotFound
from conversations.context.forms import RESULT_CHARACTERS, SETTLED_CHARACTERS
from conversations.context.tool_results import compact_tool_result
from conversations.models import Conversation
from conversations.services.conversations import conversation_delete
from conversations.services.edits import messages_delete, messages_supersede
from tests.tools.outputs import (
    SOURCE,
    call,
    context_of,
    output_id_in,
    run_begin,
    run_end,
    step_store,
    store,
)
from tools.contracts import ToolResult
from tools.models import ToolOutput
from tools.selectors.outputs import output_read
from tools.services.outputs import SHORT_CHARACTERS, outputs_forget, outputs_purge, result_gate

pytestmark = pytest.mark.django_db(transaction=True)

PROSE = "".join(f"Line {at} says something about the matter.\n" for at in range(1_200))
ROWS = [{"id": f"row-{at}", "name": f"name {at}", "memo": f"memo of {at} " * 12} for at in range(120)]


@pytest.fixture
def run(user):
    return run_begin(user)


@pytest.fixture
def gate(run, user):
    def put(call_id: str = "call_1", tool=SOURCE, **fields) -> ToolResult:
        result = ToolResult(**{"content": "", **fields})
        return result_gate(result=result, tool=tool, call_id=call_id, context=context_of(run, user))

    return put


def test_tur_04_a_long_result_is_stored_whole_and_shown_short(gate, run, user):
    """TUR-04."""
    result = gate(content=PROSE)

    assert len(PROSE) > 50_000
    assert len(result.content) <= SHORT_CHARACTERS < 6_000
    stored = output_read(
        user_id=user.pk, conversation_id=run.conversation_id, output_id=output_id_in(result.content)
    )
    assert (stored.content, stored.characters, stored.kind) == (PROSE, len(PROSE), "text")
    assert f"{len(PROSE):,} characters" in result.content
    assert "1,200 lines" in result.content
    assert "Line 0 says" in result.content
    assert result.content.endswith("Line 1199 says something about the matter.\n")
    for name in ("read_tool_output", "tool_output_query", "tool_output_section"):
        assert name in result.content


def test_what_fits_is_neither_stored_nor_changed(gate):
    content = "x" * RESULT_CHARACTERS

    assert gate(content=content) == ToolResult(content=content)
    assert gate(artifact=ROWS[:2], content=PROSE) == ToolResult(content=PROSE, artifact=ROWS[:2])
    assert not ToolOutput.objects.exists()


def test_tur_06_what_reads_stored_results_is_never_stored_again(gate):
    """TUR-06."""
    content = "y" * 40_000

    assert gate(content=content, tool=replace(SOURCE, reads_stored=True)) == ToolResult(content=content)
    assert not ToolOutput.objects.exists()


def test_json_stays_json(gate):
    result = gate(content=json.dumps({"total": 120, "rows": ROWS}, indent=2))

    shown = json.loads(result.content)
    assert len(result.content) <= SHORT_CHARACTERS
    assert shown["stored_output"]["id"] == ToolOutput.objects.get().pk
    assert "$.total: integer, e.g. 120" in shown["stored_output"]["structure"]
    assert shown["result_in_brief"]["total"] == 120
    assert shown["result_in_brief"]["rows"][0] == ROWS[0]
    note = shown["result_in_brief"]["rows_compaction"]
    assert note["retained"] + note["omitted"] == 120


def test_json_that_only_spaces_make_long_is_shown_whole(gate):
    value = [{"n": at} for at in range(800)]
    spaced = json.dumps(value, indent=8)

    result = gate(content=spaced)

    assert len(spaced) > RESULT_CHARACTERS
    assert json.loads(result.content) == value
    assert not ToolOutput.objects.exists()


def test_an_artifact_stays_whole_and_its_projection_gets_the_id_of_what_is_stored(gate):
    """TUR-10, TUR-11."""
    artifact = {"rows": ROWS}

    result = gate(content="120 rows", artifact=artifact)

    assert (result.content, result.artifact) == ("120 rows", artifact)
    assert json.loads(ToolOutput.objects.get().content) == artifact
    sent = compact_tool_result(
        content=result.content, artifact=result.artifact, model_context=result.model_context
    )
    assert sent == json.dumps(result.model_context, ensure_ascii=False, separators=(",", ":"))
    assert len(sent) <= RESULT_CHARACTERS
    shown = result.model_context["result_in_brief"]
    assert len(shown["rows"]) > 20
    assert shown["rows_compaction"]["retained"] + shown["rows_compaction"]["omitted"] == 120
    assert shown["rows_compaction"]["omitted_refs"]


def test_tur_15_settled_it_still_names_what_is_stored_and_counts_all_rows(gate):
    """TUR-15."""
    result = gate(content="120 rows", artifact={"rows": ROWS})

    settled = json.loads(
        compact_tool_result(content="", model_context=result.model_context, limit=SETTLED_CHARACTERS)
    )

    note = settled["result_in_brief"]["rows_compaction"]
    assert settled["stored_output"]["id"] == ToolOutput.objects.get().pk
    assert note["retained"] + note["omitted"] == 120


def test_settled_text_still_names_what_is_stored(gate):
    result = gate(content=PROSE)

    assert ToolOutput.objects.get().pk in compact_tool_result(
        content=result.content, limit=SETTLED_CHARACTERS
    )


def test_tur_16_a_focused_view_is_what_counts(gate):
    """TUR-16."""
    artifact = {"path": "note.md", "markdown": PROSE}

    focused = gate(content="one line", artifact=artifact, model_context={"line": 3, "text": "three"})

    assert focused == ToolResult(
        content="one line", artifact=artifact, model_context={"line": 3, "text": "three"}
    )
    assert not ToolOutput.objects.exists()


def test_rows_whose_ids_alone_are_too_long_are_outlined(gate):
    artifact = [{"id": str(uuid4())} for _ in range(5_000)]

    result = gate(content="5,000 rows", artifact=artifact)

    assert set(result.model_context["result_in_brief"]) == {"begins", "ends_with"}
    assert artifact[0]["id"] in result.model_context["result_in_brief"]["begins"]
    assert len(json.dumps(result.model_context)) < RESULT_CHARACTERS


def test_long_words_for_people_are_shortened_beside_an_artifact(gate):
    result = gate(content=PROSE, artifact={"rows": ROWS})

    assert len(result.content) <= SHORT_CHARACTERS
    assert output_id_in(result.content) == result.model_context["stored_output"]["id"]


def test_a_failed_result_stays_failed(gate):
    assert gate(content=PROSE, ok=False).ok is False


any_text = st.text(alphabet=st.characters(), min_size=1, max_size=200).map(
    lambda text: text * (30_000 // len(text))
)
any_json = st.recursive(
    st.none() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5),
    max_leaves=20,
).map(lambda value: [value] * 900)
bounded = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(content=any_text)
@bounded
def test_no_text_goes_on_long(gate, content):
    assert len(gate(content=content).content) <= RESULT_CHARACTERS


@given(value=any_json)
@bounded
def test_no_json_goes_on_long_or_broken(gate, value):
    from_content = gate(content=json.dumps(value)).content
    from_artifact = gate(artifact=value)

    assert len(from_content) <= RESULT_CHARACTERS
    assert isinstance(json.loads(from_content), (dict, list))
    sent = compact_tool_result(
        content="", artifact=from_artifact.artifact, model_context=from_artifact.model_context
    )
    assert len(sent) <= RESULT_CHARACTERS
    if from_artifact.model_context is not None:
        assert json.loads(sent) == from_artifact.model_context


def test_the_same_call_is_stored_once(run, user):
    ids = {store(run, user, PROSE) for _ in range(3)}

    assert ids == {ToolOutput.objects.get().pk}


def test_the_same_call_from_eight_threads_is_stored_once(run, user):
    def put(_number: int) -> str:
        try:
            return store(run, user, PROSE)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        ids = set(threads.map(put, range(8)))

    assert ids == {ToolOutput.objects.get().pk}


def test_a_call_id_used_again_by_a_later_answer_of_the_run_is_another_result(run, user):
    first, second = store(run, user, PROSE), store(run, user, PROSE.upper())

    assert first != second
    assert ToolOutput.objects.count() == 2


def test_a_call_outside_of_a_run_is_stored_without_one(run, user):
    context = replace(context_of(run, user), run_id=uuid4())

    for _ in range(2):
        result_gate(result=ToolResult(content=PROSE), tool=SOURCE, call_id="c", context=context)

    assert ToolOutput.objects.get().run_id is None


def test_nothing_is_stored_in_a_conversation_of_somebody_else(run, other_user):
    result = ToolResult(content=PROSE)

    assert result_gate(result=result, tool=SOURCE, call_id="c", context=context_of(run, other_user)) == result
    assert not ToolOutput.objects.exists()


@pytest.mark.parametrize("leave", [messages_supersede, messages_delete])
def test_results_are_withdrawn_with_their_messages(run, user, leave):
    output_id = store(run, user, PROSE)
    message = step_store(run, ToolResult(content="short"))
    kept = store(run, user, PROSE, call_id="call_2")
    run_end(run)
    where = (
        {"from_seq": message.seq, "reason": "edit"}
        if leave is messages_supersede
        else {"seqs": [message.seq]}
    )

    leave(conversation_id=run.conversation_id, **where)

    with pytest.raises(NotFound):
        output_read(user_id=user.pk, conversation_id=run.conversation_id, output_id=output_id)
    assert output_read(user_id=user.pk, conversation_id=run.conversation_id, output_id=kept).content == PROSE
    assert call("read_tool_output", context_of(run, user), id=output_id).ok is False


def test_results_behind_deleted_messages_are_deleted(run, user):
    store(run, user, PROSE)
    kept = store(run, user, PROSE, call_id="call_2")
    message = step_store(run, ToolResult(content="short"))

    with transaction.atomic():
        count = outputs_forget(conversation_id=run.conversation_id, seqs=[message.seq, 999])

    assert count == 1
    assert list(ToolOutput.objects.values_list("pk", flat=True)) == [kept]


def test_a_purged_conversation_can_be_deleted(run, user):
    store(run, user, PROSE)
    run_end(run)

    assert outputs_purge(conversation_id=run.conversation_id) == 1
    conversation_delete(user_id=user.pk, conversation_id=run.conversation_id)

    assert not Conversation.objects.filter(pk=run.conversation_id).exists()
    assert not ToolOutput.objects.exists()
