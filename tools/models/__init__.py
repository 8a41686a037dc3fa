"""Tables of the tools app."""

from tools.models.output import ToolOutput

__all__ = ["ToolOutput"]
