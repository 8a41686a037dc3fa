"""The tools that come with the product. A new one is a module of its own and a line here; the order is what models see."""

from tools.builtin.discovery import make_discovery
from tools.builtin.outputs import OUTPUT_TOOLS
from tools.builtin.sample import SAMPLE_TOOLS
from tools.builtin.search import CONVERSATION_SEARCH
from tools.builtin.thread import READ_THREAD
from tools.builtin.today import CURRENT_DATE
from tools.contracts import Tool
from tools.registry import default_registry

BUILTIN: tuple[Tool, ...] = (
    CONVERSATION_SEARCH,
    READ_THREAD,
    CURRENT_DATE,
    *OUTPUT_TOOLS,
    *SAMPLE_TOOLS,
    make_discovery(lambda: default_registry().tools),
)
