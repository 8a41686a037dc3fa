"""Structured logs: one JSON object a line, with the request id where there is one."""

from agentx.settings.env import read
from agentx.telemetry import log_config

LOGGING = log_config(level=read("AGENTX_LOG_LEVEL"))
LOGGING_CONFIG = "logging.config.dictConfig"
