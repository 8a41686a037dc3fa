"""The tools a model may call: how they are chosen, and which of them are offered at all."""

from django.core.exceptions import ImproperlyConfigured

from agentx.settings.env import read

TOOL_ROUTING_MODE = read("TOOL_ROUTING_MODE")
TOOLS_SAMPLE_DATA = read("TOOLS_SAMPLE_DATA")

if TOOL_ROUTING_MODE not in ("static", "dynamic"):
    raise ImproperlyConfigured(f"TOOL_ROUTING_MODE={TOOL_ROUTING_MODE!r} is neither static nor dynamic")
