"""The tools that come with the product. A new one is a module of its own and a line here; the order is what models see."""

from tools.builtin.search import CONVERSATION_SEARCH
from tools.builtin.thread import READ_THREAD
from tools.builtin.today import CURRENT_DATE
from tools.contracts import Tool

BUILTIN: tuple[Tool, ...] = (CONVERSATION_SEARCH, READ_THREAD, CURRENT_DATE)
