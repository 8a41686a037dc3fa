"""Tools over made-up data, off unless ``TOOLS_SAMPLE_DATA`` is set: something real to try structured results on."""

from tools.builtin.sample.notes import SAMPLE_NOTE_READ, SAMPLE_NOTES_SEARCH
from tools.builtin.sample.transactions import SAMPLE_SPENDING_SUMMARY, SAMPLE_TRANSACTIONS
from tools.contracts import Tool

SAMPLE_TOOLS: tuple[Tool, ...] = (
    SAMPLE_TRANSACTIONS,
    SAMPLE_SPENDING_SUMMARY,
    SAMPLE_NOTES_SEARCH,
    SAMPLE_NOTE_READ,
)
