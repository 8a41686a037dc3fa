"""Every tool, pointed at what is somebody else's, by ids in any form: the answer is that of an id that never was."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.parse
from uuid import UUID, uuid4

import pytest

from agentx.llm.messages import ToolCall
from conversations.models import Message
from conversations.services.conversations import conversation_delete
from conversations.services.edits import messages_delete
from conversations.services.index import entries_catch_up
from tests.conversations.talks import talk_import, talk_turn
from tools.builtin import BUILTIN
from tools.contracts import ToolContext, ToolResult
from tools.models import ToolOutput
from tools.models.output import new_output_id
from tools.services.execute import call_execute
from tools.services.outputs import result_gate

pytestmark = pytest.mark.django_db(transaction=True)

# What the installation could offer, whatever its settings.
TOOLS = {tool.name: tool for tool in BUILTIN}
SECRET = "zanzibar"

FORMS = {
    "plain": lambda text: text,
    "upper case": lambda text: text.upper(),
    "no separators": lambda text: text.replace("-", "").replace("_", ""),
    "other separators": lambda text: text.replace("-", "_").replace("_", "\u2010"),
    "braces": lambda text: f"{{{text}}}",
    "urn": lambda text: f"urn:uuid:{text}",
    "file": lambda text: f"conversation_history/{text}.md",
    "traversal": lambda text: f"../conversation_history/{text}.md",
    "deep traversal": lambda text: f"conversation_history/../../conversation_history/{text}.md",
    "absolute": lambda text: f"/conversation_history/{text}.md",
    "percent": lambda text: _percent(text),
    "twice percent": lambda text: urllib.parse.quote(_percent(text)),
    "base64 of bytes": lambda text: (
        base64.b64encode(bytes.fromhex(text.replace("-", ""))).decode()
        if "-" in text
        else base64.b85encode(text.encode()).decode()
    ),
    "base64 of text": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "spaces": lambda text: f"  {text}\t",
    "line break": lambda text: f"{text}\n",
    "zero width": lambda text: f"\u200b{text}",
    "inner zero width": lambda text: f"{text[:6]}\u200b{text[6:]}",
    "full width": lambda text: text.translate({ord("0") + n: chr(0xFF10 + n) for n in range(10)}),
    "nul": lambda text: f"{text}\x00",
    "quoted": lambda text: f"'{text}'",
    "sql": lambda text: f"{text}' OR '1'='1",
    "sql union": lambda text: f"' UNION SELECT content FROM conversations_message WHERE id='{text}' --",
    "wildcard": lambda text: f"{text[:8]}%",
    "json text": lambda text: json.dumps({"id": text}),
    "object": lambda text: {"id": text},
    "lookup": lambda text: {"conversation_id__in": [text]},
    "list": lambda text: [text],
    "nested": lambda text: [[{"id": [text]}]],
    "number": lambda text: int.from_bytes(text.encode(), "big"),
}


def _percent(text: str) -> str:
    return "".join(f"%{ord(letter):02X}" for letter in text)


OUTPUT_TOOLS = ("read_tool_output", "tool_output_query", "tool_output_section", "tool_output_path")
# Arguments by which a tool can be pointed at something; any other only says how to look.
POINTERS = {
    "read_thread": {"conversation_id"},
    "sample_note_read": {"path"},
    **{name: {"id"} for name in OUTPUT_TOOLS},
}
PLAIN = {
    "conversation_search": {"query", "max_results", "role_filter"},
    "read_thread": {"center_turn", "before", "after"},
    "read_tool_output": {"start", "max_chars"},
    "tool_output_query": {"query"},
    "tool_output_section": {"section"},
    "tool_output_path": {"json_path"},
    "current_date": set(),
    "sample_transactions": {
        *("date_from", "date_to", "account", "category", "kind", "merchant", "limit", "offset"),
    },
    "sample_spending_summary": {"date_from", "date_to", "account", "category", "group_by"},
    "sample_notes_search": {"query", "max_results"},
    "sample_note_read": {"start_line", "max_lines"},
    "discover_tool_groups": {"groups"},
}
# Arguments without which a tool says no more than that they are missing.
NO_OUTPUT_ID = "out_aaaaaaaaaaaa"
NEEDED = {
    "conversation_search": {"query": SECRET},
    "sample_notes_search": {"query": SECRET},
    "sample_note_read": {"path": SECRET},
    "read_tool_output": {"id": NO_OUTPUT_ID},
    "tool_output_query": {"id": NO_OUTPUT_ID, "query": SECRET},
    "tool_output_section": {"id": NO_OUTPUT_ID, "section": "1-9"},
    "tool_output_path": {"id": NO_OUTPUT_ID, "json_path": "$"},
}


def _context(user, conversation_id: UUID) -> ToolContext:
    return ToolContext(
        user_id=user.pk, conversation_id=conversation_id, run_id=uuid4(), turn=1_000, question="?"
    )


def _call(name: str, context: ToolContext, **arguments: object) -> ToolResult:
    call = ToolCall("1", name, json.dumps(arguments))
    return asyncio.run(call_execute(call=call, tools=TOOLS, context=context)).result


@pytest.fixture
def user(make_user):
    return make_user()


@pytest.fixture
def stranger(make_user):
    return make_user()


@pytest.fixture
def theirs(stranger) -> UUID:
    return _secret_talk(stranger)


@pytest.fixture
def mine(user) -> UUID:
    return talk_import(user_id=user.pk, turns=2)


def _secret_talk(owner) -> UUID:
    conversation_id = talk_import(user_id=owner.pk, turns=1)
    talk_turn(conversation_id=conversation_id, question=f"The word is {SECRET}.", answer=f"{SECRET}, noted.")
    entries_catch_up(conversation_id=conversation_id)
    rows = json.dumps([{"word": SECRET, "number": number} for number in range(1_000)])
    gated = result_gate(
        result=ToolResult(content=rows),
        tool=TOOLS["current_date"],
        call_id="call_1",
        context=_context(owner, conversation_id),
    )
    assert "out_" in gated.content
    return conversation_id


def _says_secret(result: ToolResult) -> bool:
    return SECRET in f"{result.content} {result.artifact} {result.model_context}"


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_argument_of_every_tool_is_known_to_this_matrix(tool):
    """A new tool or argument has to say whether it points at rows."""
    assert tool.name in PLAIN, "a new tool: put its arguments into PLAIN or POINTERS"
    assert set(tool.arguments.model_fields) == PLAIN[tool.name] | POINTERS.get(tool.name, set())
    assert not any(
        name == "id" or name.endswith(("_id", "_ids", "path")) for name in PLAIN[tool.name] - {"json_path"}
    )


def _targets(conversation_id: UUID) -> dict[str, tuple[str, str]]:
    """By argument: an id of what is in this conversation, and one that never was."""
    stored = ToolOutput.objects.get(conversation_id=conversation_id)
    return {
        "conversation_id": (str(conversation_id), str(uuid4())),
        "path": (str(conversation_id), str(uuid4())),
        "id": (stored.pk, new_output_id()),
    }


@pytest.mark.parametrize("gone", [False, True], ids=["theirs", "deleted"])
@pytest.mark.parametrize(("tool", "argument"), [(name, arg) for name in POINTERS for arg in POINTERS[name]])
def test_ids_of_others_are_answered_like_ids_that_never_were(
    user, stranger, mine, theirs, tool, argument, gone
):
    there, nowhere = _targets(theirs)[argument]
    if gone:
        conversation_delete(user_id=stranger.pk, conversation_id=theirs)
    context = _context(user, mine)

    for form, write in FORMS.items():
        answer = _call(tool, context, **{**NEEDED.get(tool, {}), argument: write(there)})
        never = _call(tool, context, **{**NEEDED.get(tool, {}), argument: write(nowhere)})

        assert (answer.content, answer.ok) == (never.content, False), form
        assert (answer.artifact, answer.model_context) == (None, None), form
        assert there not in answer.content, form
        assert not _says_secret(answer), form


@pytest.mark.parametrize("tool", OUTPUT_TOOLS)
def test_the_owner_of_a_stored_result_is_given_what_others_are_not(stranger, theirs, tool):
    """Without this, the tests above could pass because nothing was there."""
    there, _ = _targets(theirs)["id"]

    answer = _call(tool, _context(stranger, theirs), **{**NEEDED[tool], "id": there})

    assert _says_secret(answer)


@pytest.mark.parametrize("tool", TOOLS)
def test_ids_under_names_a_tool_does_not_know_are_refused(user, mine, theirs, tool):
    """Guessed arguments, such as an owner or a filter, select nothing."""
    for form, write in FORMS.items():
        for guessed in ("user_id", "conversation", "run_id"):
            answer = _call(
                tool, _context(user, mine), **{**NEEDED.get(tool, {}), guessed: write(str(theirs))}
            )

            assert (answer.ok, guessed in answer.content) == (False, True), form
            assert not _says_secret(answer), form


@pytest.mark.parametrize("tool", TOOLS)
def test_ids_in_any_plain_argument_select_nothing(user, mine, theirs, tool):
    for form, write in FORMS.items():
        for argument in sorted(PLAIN[tool]):
            answer = _call(
                tool, _context(user, mine), **{**NEEDED.get(tool, {}), argument: write(str(theirs))}
            )

            assert not _says_secret(answer), (form, argument)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_turn_in_somebody_elses_conversation_reads_nothing_of_it(user, theirs, tool):
    """The conversation and the user both select: a context that mixes them up gets what an unknown id gets."""
    arguments = NEEDED.get(tool, {})

    answer = _call(tool, _context(user, theirs), **arguments)
    never = _call(tool, _context(user, uuid4()), **arguments)

    assert not _says_secret(answer)
    if tool != "current_date":
        assert (answer.content, answer.artifact) == (never.content, never.artifact)


def test_a_search_reads_the_conversation_of_its_context_alone(user, mine, theirs):
    own_other = _secret_talk(user)

    result = _call("conversation_search", _context(user, mine), query=SECRET)
    there = _call("conversation_search", _context(user, own_other), query=SECRET)

    assert (_says_secret(result), _says_secret(there)) == (False, True)


@pytest.mark.parametrize("tool", ["conversation_search", "read_thread"])
def test_what_was_deleted_of_ones_own_is_gone_for_tools_too(user, tool):
    own = _secret_talk(user)
    arguments = NEEDED.get(tool, {})
    before = _call(tool, _context(user, own), **arguments)

    seqs = list(
        Message.objects.filter(conversation_id=own, content__contains=SECRET).values_list("seq", flat=True)
    )
    messages_delete(conversation_id=own, seqs=seqs)
    after = _call(tool, _context(user, own), **arguments)
    conversation_delete(user_id=user.pk, conversation_id=own)
    at_last = _call(tool, _context(user, own), **arguments)

    assert [_says_secret(result) for result in (before, after, at_last)] == [True, False, False]
