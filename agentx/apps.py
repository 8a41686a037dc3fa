"""The ground app: commands that concern the whole installation."""

from django.apps import AppConfig


class AgentXConfig(AppConfig):
    name = "agentx"
    verbose_name = "AgentX"

    def ready(self) -> None:
        """Make our Celery application the default one of every thread; by itself it is that of one thread only."""
        from agentx.celery import app

        app.set_default()
