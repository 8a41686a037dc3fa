"""The Celery application: what can wait, and the beat that sweeps up what was lost."""

import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentx.settings.dev")

app = Celery("agentx")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def _keep_our_logging(**_kwargs: object) -> None:
    """Connected so that Celery leaves logging as Django configured it."""
