"""The Celery application: what can wait, and the beat that sweeps up what was lost."""

import os

from celery import Celery
from celery.signals import setup_logging, worker_init

from agentx.process import process_tune

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentx.settings.dev")

WORKER_NICENESS = 10

app = Celery("agentx")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def _keep_our_logging(**_kwargs: object) -> None:
    """Connected so that Celery leaves logging as Django configured it."""


@worker_init.connect
def _set_up(**_kwargs: object) -> None:
    """Before the children are forked. What can wait leaves the processor to those who wait for a word."""
    os.nice(WORKER_NICENESS)
    process_tune()
