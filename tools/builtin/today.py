"""``current_date``: the one place from which a model learns the time, since no prompt may have a clock in it."""

from __future__ import annotations

from django.utils import timezone

from tools.contracts import Tool, ToolArguments, ToolContext, ToolResult


class NoArguments(ToolArguments):
    pass


def _run(_context: ToolContext, _arguments: NoArguments) -> ToolResult:
    now = timezone.localtime()
    offset = now.strftime("%z")
    artifact = {
        "date": now.date().isoformat(),
        "weekday": now.strftime("%A"),
        "time": now.strftime("%H:%M:%S"),
        "zone": timezone.get_current_timezone_name(),
        "utc_offset": f"{offset[:3]}:{offset[3:5]}",
    }
    text = "{weekday}, {date}, {time} {zone} (UTC{utc_offset})".format(**artifact)
    return ToolResult(content=text, artifact=artifact)


CURRENT_DATE = Tool(
    name="current_date",
    description="The present date, weekday, time and time zone.",
    label="Looking at the clock",
    group="time",
    arguments=NoArguments,
    run=_run,
)
