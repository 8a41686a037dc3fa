"""TUR-05: the four tools that read stored results, what they refuse, and that they read nobody else's."""

from __future__ import annotations

import base64
import json
import re
import urllib.parse

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conversations.context.forms import RESULT_CHARACTERS
from tests.tools.outputs import TOOLS, call, context_of, run_begin, store
from tools.builtin.outputs import NO_OUTPUT
from tools.contracts import ToolResult
from tools.models import ToolOutput
from tools.services.outputs import outputs_purge

pytestmark = pytest.mark.django_db(transaction=True)

ROWS = [
    {"id": at, "name": f"item {at}", "memo": "plain words " * 15, "price": {"net": at * 2}}
    for at in range(200)
]
ROWS[150]["memo"] = "the turbine costs 48,213 euros"
DATA = json.dumps({"meta": {"Source Name": "ledger"}, "rows": ROWS, "essay": "quiet sentence. " * 2_000})
NOTE = "".join(f"## Chapter {at}\n\n{f'text of chapter {at}. ' * 60}\n\n" for at in range(30)) + (
    "## The *last* chapter\n\nThe zeppelin left at noon.\n"
)
TABLE = "id,name,town\n" + "".join(f"{at},name {at},town{at % 7}\n" for at in range(1_500))


@pytest.fixture
def run(user):
    return run_begin(user)


@pytest.fixture
def ask(run, user):
    """Store a text and call a tool with its id."""

    def asked(name: str, content: str, **arguments: object) -> ToolResult:
        output_id = store(run, user, content)
        return call(name, context_of(run, user), id=output_id, **arguments)

    return asked


def test_tur_05_each_tool_gives_its_part_of_one_json(ask):
    """TUR-05."""
    page = ask("read_tool_output", DATA, start=9, max_chars=30)
    query = json.loads(ask("tool_output_query", DATA, query="turbines price 48213").content)
    section = json.loads(ask("tool_output_section", DATA, section="source name").content)
    path = json.loads(ask("tool_output_path", DATA, json_path="$.rows[-1].price.net").content)

    assert page.content.endswith("\n" + DATA[9:39])
    assert query["rows"][0] == {"path": "$.rows[150]", "value": ROWS[150]}
    assert (section["path"], section["value"]) == ('$.meta["Source Name"]', "ledger")
    assert (path["path"], path["value"]) == ("$.rows[199].price.net", 398)


def test_a_page_says_where_it_is_and_what_remains(run, user):
    output_id = store(run, user, NOTE)
    context = context_of(run, user)

    first = call("read_tool_output", context, id=output_id, max_chars=100).content
    last = call("read_tool_output", context, id=output_id, start=len(NOTE) - 5).content

    assert first == (
        f"Part of {output_id}: characters 0 to 100 of {len(NOTE)}; read on with start=100.\n{NOTE[:100]}"
    )
    assert last == (
        f"Part of {output_id}: characters {len(NOTE) - 5} to {len(NOTE)} of {len(NOTE)};"
        f" this is the end of it.\n{NOTE[-5:]}"
    )


@given(
    seed=st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1),
    size=st.integers(min_value=3_000, max_value=12_000),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_together_are_every_character_once(run, user, seed, size):
    text = "Not JSON " + seed * (30_000 // len(seed))
    output_id = store(run, user, text)
    pages, start = [], "0"

    while start:
        page = call(
            "read_tool_output", context_of(run, user), id=output_id, start=int(start), max_chars=size
        ).content
        assert len(page) <= RESULT_CHARACTERS
        head, _, body = page.partition("\n")
        pages.append(body)
        start = (re.search(r"start=(\d+)\.$", head) or ["", ""])[1]

    assert "".join(pages) == text


def test_a_page_behind_the_end_is_refused(ask):
    result = ask("read_tool_output", NOTE, start=10**9)

    assert (result.ok, f"{len(NOTE):,} characters" in result.content) == (False, True)


def test_a_query_of_text_gives_the_best_passages_with_their_places(ask):
    result = ask("tool_output_query", NOTE, query="when did the zeppelins leave")

    assert "The zeppelin left at noon." in result.content.split("\n\n(line")[1]
    start = int(re.search(r"start=(\d+)", result.content)[1])
    assert "zeppelin" in NOTE[start : start + 800]


def test_a_query_of_a_table_gives_rows_by_column(ask):
    found = json.loads(ask("tool_output_query", TABLE, query="name 1234").content)

    assert found["rows"][0] == {
        "path": "row 1235",
        "value": {"id": "1234", "name": "name 1234", "town": f"town{1234 % 7}"},
    }
    assert len(found["rows"]) == found["shown"]


def test_words_in_a_long_text_of_json_are_found_with_their_range(ask):
    essay = "quiet sentence. " * 1_500 + "The zeppelin left. " + "quiet sentence. " * 500
    content = json.dumps({"essay": essay})

    found = json.loads(ask("tool_output_query", content, query="zeppelin").content)["rows"][0]
    again = json.loads(ask("tool_output_path", content, json_path=found["path"]).content)

    assert "The zeppelin left." in found["value"]
    assert again["value"] == found["value"]


@pytest.mark.parametrize("content", [DATA, NOTE, TABLE], ids=["json", "text", "table"])
def test_a_query_without_a_match_says_so(ask, content):
    result = ask("tool_output_query", content, query="xylophone")

    assert (result.ok, "has any of these words" in result.content) == (False, True)


def test_a_section_of_markdown_is_found_without_case_or_markup(ask):
    result = ask("tool_output_section", NOTE, section="the LAST chapter")

    assert result.content.endswith("## The *last* chapter\n\nThe zeppelin left at noon.\n")
    assert "lines 121 to 123, characters" in result.content


def test_lines_and_columns_are_sections_too(ask):
    lines = ask("tool_output_section", TABLE, section="120-121")
    column = json.loads(ask("tool_output_section", TABLE, section="TOWN").content)

    assert lines.content.endswith("\n118,name 118,town6\n119,name 119,town0\n")
    assert column["path"] == "column town"
    assert column["value"][:3] == ["town0", "town1", "town2"]


def test_a_long_section_says_where_to_read_on(ask):
    result = ask("tool_output_section", NOTE, section="1-100")

    head, _, body = result.content.partition("\n")
    stop = int(re.search(r"start=(\d+)\.$", head)[1])
    assert body == NOTE[:stop]
    assert len(result.content) <= RESULT_CHARACTERS


def test_a_value_that_is_too_long_stays_json_and_says_where_to_read_on(ask):
    rows = json.loads(ask("tool_output_path", DATA, json_path="$.rows").content)
    essay = json.loads(ask("tool_output_path", DATA, json_path="$.essay").content)

    kept = len(rows["value"])
    assert rows["value"] == ROWS[:kept]
    assert rows["read_on"] == f"$.rows[{kept}:]"
    assert rows["value_compaction"]["omitted"] == 200 - kept
    assert essay["read_on"] == f"$.essay[{len(essay['value'])}:]"


def test_a_path_with_many_values_gives_them_in_order(ask):
    result = json.loads(ask("tool_output_path", DATA, json_path="$.rows[*].price.net").content)

    assert result["value"] == [at * 2 for at in range(200)]


def test_identities_that_do_not_fit_are_outlined(ask):
    content = json.dumps({"rows": [{"id": f"{at:040x}"[::-1]} for at in range(2_000)]})

    result = json.loads(ask("tool_output_path", content, json_path="$.rows").content)

    assert result["structure"][0] == "$: list, 2,000 elements"


@pytest.mark.parametrize(
    ("name", "content", "arguments", "said"),
    [
        ("tool_output_path", DATA, {"json_path": "$.rows[0].cost"}, "$.name: text"),
        ("tool_output_path", DATA, {"json_path": "$..id"}, "tool_output_query"),
        ("tool_output_path", NOTE, {"json_path": "$.a"}, "not JSON but markdown"),
        ("tool_output_section", DATA, {"section": "nothing"}, "$.meta: object"),
        ("tool_output_section", TABLE, {"section": "country"}, "id; name; town"),
        ("tool_output_section", NOTE, {"section": "appendix"}, "Chapter 3"),
    ],
)
def test_refusals_say_what_there_is_instead(ask, name, content, arguments, said):
    result = ask(name, content, **arguments)

    assert result.ok is False
    assert said in result.content
    assert len(result.content) < RESULT_CHARACTERS


HOSTILE = {
    "control characters": json.dumps([{"text": "\x01" * 1_900, "word": "needle"}] * 20),
    "long key": json.dumps([{"k" * 5_000: "needle"}] * 8),
    "one line": "needle " + "x" * 100_000,
    "direction": "needle \u202e\u2066 " * 3_000,
    "escaped surrogate": json.dumps([{"needle": "\ud800 needle" * 30}] * 60),
    "escaped nul": json.dumps([{"needle": "\x00 needle" * 30}] * 60),
    "wide": json.dumps({f"needle {at}": at for at in range(3_000)}),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_tool_output", {}),
        ("tool_output_query", {"query": "needle"}),
        ("tool_output_section", {"section": "1-5"}),
        ("tool_output_path", {"json_path": "$"}),
        ("tool_output_path", {"json_path": "$[*]"}),
    ],
)
def test_no_part_of_a_hostile_result_is_long_or_an_internal_error(ask, content, name, arguments):
    result = ask(name, content, **arguments)

    assert len(result.content) <= RESULT_CHARACTERS
    assert "internal error" not in result.content
    result.content.encode()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("tool_output_query", {"query": "(a+)+$ " * 100}),
        ("tool_output_section", {"section": "(" * 300}),
        ("tool_output_section", {"section": "9" * 300}),
        ("tool_output_path", {"json_path": "$['" + "\\'" * 240}),
        ("tool_output_path", {"json_path": "$" + "[*]" * 32}),
    ],
)
def test_arguments_that_are_made_to_take_long_are_refused(ask, name, arguments):
    assert ask(name, json.dumps([[[0] * 50] * 50] * 50), **arguments).ok is False


FORMS = {
    "plain": str,
    "upper case": str.upper,
    "no prefix": lambda value: value.removeprefix("out_"),
    "braces": lambda value: f"{{{value}}}",
    "path": lambda value: f"../{value}",
    "percent": lambda value: urllib.parse.quote(value.replace("_", "%5F")),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "spaces": lambda value: f"  {value}\t",
    "zero width": lambda value: f"\u200b{value}",
    "nul": lambda value: f"{value}\x00",
    "quoted": lambda value: f"'{value}' OR 1=1 --",
    "object": lambda value: {"id": value},
    "list": lambda value: [value],
    "long": lambda value: value * 1_000,
}
REST = {
    "read_tool_output": {},
    "tool_output_query": {"query": "zeppelin"},
    "tool_output_section": {"section": "1-5"},
    "tool_output_path": {"json_path": "$"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("whose", ["theirs", "of another conversation", "deleted"])
def test_ids_of_others_are_answered_like_ids_that_never_were(run, user, other_user, name, form, whose):
    owner = other_user if whose == "theirs" else user
    other = run_begin(owner)
    output_id = store(other, owner, NOTE)
    if whose == "deleted":
        outputs_purge(conversation_id=other.conversation_id)
    context = context_of(run, user)

    answer = call(name, context, id=FORMS[form](output_id), **REST[name])
    never = call(name, context, id=FORMS[form]("out_abcdefghijkm"), **REST[name])

    assert answer == never
    assert answer.ok is False
    if form not in ("object", "list"):
        assert answer.content == NO_OUTPUT


def test_a_context_of_somebody_else_reads_nothing_of_the_conversation(run, user, other_user):
    output_id = store(run, user, NOTE)

    assert call("read_tool_output", context_of(run, user), id=f" {output_id} ").ok
    assert call("read_tool_output", context_of(run, other_user), id=output_id).content == NO_OUTPUT


def test_reading_stores_nothing(ask):
    ask("read_tool_output", NOTE)

    assert ToolOutput.objects.count() == 1
    assert all(tool.reads_stored for tool in TOOLS.values())
