"""Redis protocol server and Celery."""

from agentx.settings.env import data_dir, read

REDIS_URL = read("REDIS_URL") or "redis://127.0.0.1:6379/0"

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a broker that comes back must find the worker waiting
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "socket_timeout": 30,  # redis-py's default of 5 s is shorter than the worker's blocking reads
    "socket_connect_timeout": 2,
    "health_check_interval": 25,
}
CELERY_TASK_PUBLISH_RETRY = False  # of beat: what it could not send comes again with the next tick
CELERY_BEAT_SCHEDULE = {
    "worker-seen": {"task": "conversations.worker_seen", "schedule": 10.0},
    "reap-runs": {"task": "conversations.reap_runs", "schedule": 30.0},
    # expires: sweeps that found no worker must not all be done by the first that comes
    "after-turn-sweep": {
        "task": "conversations.after_turn_sweep",
        "schedule": 60.0,
        "options": {"expires": 55.0},
    },
    "clear-expired": {"task": "accounts.clear_expired", "schedule": 3600.0},
}
CELERY_BEAT_SCHEDULE_FILENAME = str(data_dir() / "run" / "celerybeat-schedule")
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
