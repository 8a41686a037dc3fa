"""The four tools that read parts of results that were too long to be shown: pages, passages, sections and paths."""

from __future__ import annotations

from pydantic import Field

from agentx.errors import NotFound
from conversations.context.forms import RESULT_CHARACTERS
from conversations.context.tool_json import Json, read_json
from tools.contracts import Tool, ToolArguments, ToolContext, ToolFailure, ToolResult
from tools.json_path import Found, PathError, find_key, find_last_step, follow_path, parse_path
from tools.outline import Table, outline_json, read_table
from tools.parts import PAGE_CHARACTERS, show_passages, show_rows, show_span, show_value
from tools.passages import rank_texts, row_text, split_passages, split_rows
from tools.sections import LINES, SectionError, find_section, fold_heading
from tools.selectors.outputs import StoredOutput, output_page, output_read

_FAR = 2_000_000_000

NO_OUTPUT = (
    "There is no stored result with this id in this conversation. Copy the id, out_ and twelve characters, from the result"
    " that names it."
)


class PageArguments(ToolArguments):
    id: str = Field(description="The id of a stored result, such as out_abcdefghijkm.")
    start: int = Field(default=0, ge=0, le=_FAR, description="The first character to read, from 0.")
    max_chars: int = Field(default=RESULT_CHARACTERS, ge=1, le=RESULT_CHARACTERS)


class QueryArguments(ToolArguments):
    id: str = Field(description="The id of a stored result.")
    query: str = Field(min_length=1, max_length=1_000, description="Words to look for; any may match.")


class SectionArguments(ToolArguments):
    id: str = Field(description="The id of a stored result.")
    section: str = Field(
        min_length=1,
        max_length=300,
        description="A heading or its number, lines such as 120-180, a column of a table, or a key of JSON.",
    )


class PathArguments(ToolArguments):
    id: str = Field(description="The id of a stored result.")
    json_path: str = Field(
        min_length=1,
        max_length=1_000,
        description="Such as $.rows[0].name, $.rows[*].id, $.rows[10:20], $['a key'][-1]; text[0:500] for characters.",
    )


def _read_page(context: ToolContext, arguments: PageArguments) -> ToolResult:
    try:
        page = output_page(
            user_id=context.user_id,
            conversation_id=context.conversation_id,
            output_id=arguments.id,
            start=arguments.start,
            most=min(arguments.max_chars, PAGE_CHARACTERS),
        )
    except NotFound:
        raise ToolFailure(NO_OUTPUT) from None
    if not page.content:
        raise ToolFailure(f"{page.id} has {page.characters:,} characters; start must be below that.")
    return ToolResult(content=show_span(output=page, text=page.content, start=arguments.start))


def _read_query(context: ToolContext, arguments: QueryArguments) -> ToolResult:
    output, query = _read(context, arguments.id), arguments.query
    if value := _as_json(output):
        rows = split_rows(value)
        best = rank_texts(texts=[row_text(row) for row in rows], query=query)
        shown = show_rows(output=output, query=query, found=[rows[at] for at in best])
    elif table := _as_table(output):
        best = rank_texts(texts=[" ".join(row) for row in table.rows], query=query)
        found = [Found(f"row {at + 1}", table.row(at)) for at in best]
        shown = show_rows(output=output, query=query, found=found)
    else:
        passages = split_passages(output.content)
        best = rank_texts(texts=[passage.text for passage in passages], query=query)
        shown = show_passages(output=output, found=[passages[at] for at in best])
    if not best:
        raise ToolFailure(
            f"No part of {output.id} has any of these words. Try others, or read it in pages with read_tool_output."
        )
    return ToolResult(content=shown)


def _read_section(context: ToolContext, arguments: SectionArguments) -> ToolResult:
    output, section = _read(context, arguments.id), arguments.section
    if value := _as_json(output):
        return ToolResult(content=_section_of_json(output, value, section))
    if (table := _as_table(output)) and not LINES.fullmatch(section):
        return ToolResult(content=_section_of_table(output, table, section))
    try:
        span = find_section(text=output.content, section=section)
    except SectionError as error:
        raise ToolFailure(str(error)) from None
    text = output.content[span.start : span.end]
    where = f"lines {span.first:,} to {span.last:,}, "
    return ToolResult(content=show_span(output=output, text=text, start=span.start, where=where))


def _section_of_json(output: StoredOutput, value: Json, section: str) -> str:
    wanted = fold_heading(section)
    found = find_key(value=value, accept=lambda key: fold_heading(key) == wanted)
    if found is None:
        raise ToolFailure(f"No object of {output.id} has this key. {_outline(value)}")
    return show_value(output=output, path=found.path, value=found.value, one=True)


def _section_of_table(output: StoredOutput, table: Table, section: str) -> str:
    wanted = fold_heading(section)
    folded = [fold_heading(name) for name in table.header]
    if wanted in folded:
        at = folded.index(wanted)
    elif wanted.isdecimal() and len(wanted) < 5 and 1 <= int(wanted) <= len(folded):
        at = int(wanted) - 1
    else:
        names = "; ".join(table.header)[:2_000]
        raise ToolFailure(f"There is no such column. The columns are: {names}. Ranges of lines work too.")
    cells: list[Json] = [row[at] if at < len(row) else "" for row in table.rows]
    return show_value(output=output, path=f"column {table.header[at]}", value=cells)


def _read_path(context: ToolContext, arguments: PathArguments) -> ToolResult:
    output, path = _read(context, arguments.id), arguments.json_path
    value = _as_json(output)
    if value is None:
        raise ToolFailure(
            f"{output.id} is not JSON but {output.kind}. Use tool_output_query or tool_output_section."
        )
    try:
        steps = parse_path(path)
        found = follow_path(value=value, steps=steps)
    except PathError as error:
        raise ToolFailure(str(error)) from None
    if not found:
        reached, there = find_last_step(value=value, steps=steps)
        raise ToolFailure(f"Nothing is at {path}. {_outline(there[0].value, at=reached)}")
    if len(found) == 1:
        return ToolResult(
            content=show_value(output=output, path=found[0].path, value=found[0].value, one=True)
        )
    return ToolResult(content=show_value(output=output, path=path, value=[item.value for item in found]))


def _outline(value: Json, at: str = "$") -> str:
    """What there is instead, for somebody who asked for something else."""
    return f"What is at {at}, which is $ here: " + "; ".join(outline_json(value=value)[:12])[:1_500]


def _read(context: ToolContext, output_id: str) -> StoredOutput:
    try:
        return output_read(
            user_id=context.user_id, conversation_id=context.conversation_id, output_id=output_id
        )
    except NotFound:
        raise ToolFailure(NO_OUTPUT) from None


def _as_json(output: StoredOutput) -> dict[str, Json] | list[Json] | None:
    return read_json(output.content) if output.kind == "json" else None


def _as_table(output: StoredOutput) -> Table | None:
    return read_table(output.content) if output.kind == "csv" else None


OUTPUT_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="read_tool_output",
        description="Read a stored long result in pages, from any character on.",
        label="Reading a stored result",
        group="outputs",
        arguments=PageArguments,
        run=_read_page,
        reads_stored=True,
    ),
    Tool(
        name="tool_output_query",
        description="Find the passages or rows of a stored long result that have certain words.",
        label="Searching a stored result",
        group="outputs",
        arguments=QueryArguments,
        run=_read_query,
        reads_stored=True,
    ),
    Tool(
        name="tool_output_section",
        description="Read one section of a stored long result: a heading, a range of lines, a column or a key.",
        label="Reading a section of a stored result",
        group="outputs",
        arguments=SectionArguments,
        run=_read_section,
        reads_stored=True,
    ),
    Tool(
        name="tool_output_path",
        description="Read what is at a JSONPath of a stored long result that is JSON.",
        label="Reading a stored result",
        group="outputs",
        arguments=PathArguments,
        run=_read_path,
        reads_stored=True,
    ),
)
