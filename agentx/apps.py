"""The ground app: commands that concern the whole installation."""

from django.apps import AppConfig


class AgentXConfig(AppConfig):
    name = "agentx"
    verbose_name = "AgentX"
