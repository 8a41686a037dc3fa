"""Logs: structlog over the standard library, one JSON object a line, secrets out.

``request_id`` and ``run_id`` are bound once at the door and appear in every line below it.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

_SECRETS = re.compile(
    r"((?<![A-Za-z0-9])(?:agx_|sk-)|Bearer\s+)[A-Za-z0-9_\-.]{8,}"  # our tokens, provider keys, authorization headers
    r"|(?<=/sign-in/)[A-Za-z0-9_\-]{16,}"  # one-time links
    r"|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"  # credentials inside URLs
)


def redact_secrets(text: str) -> str:
    """``text`` with anything that looks like a key, token, link or URL password replaced by ``[redacted]``."""
    return _SECRETS.sub("[redacted]", text)


def _redact(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    return {key: _redact_value(value) for key, value in event.items()}


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact_secrets(value)
    if isinstance(value, dict):
        return {key: _redact_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_value(item) for item in value]
    return value


_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    _redact,
]


def log_config(*, level: str) -> dict[str, Any]:
    """A ``logging.config.dictConfig`` dictionary: standard loggers and structlog's share one JSON formatter."""
    logging.captureWarnings(True)  # libraries put values into warnings; this way they are redacted, too
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.JSONRenderer(),
                ],
                "foreign_pre_chain": _SHARED,
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "httpx2": {"level": "WARNING"},
            "httpx": {"level": "WARNING"},  # one line a model call at INFO, with its URL
            "celery.app.trace": {"level": "WARNING"},  # two lines for every sign of life
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
            "django.security.DisallowedHost": {"level": "CRITICAL"},  # anybody can send any Host
            "django.request": {"level": "ERROR"},  # 4xx answers are the client's business
            "uvicorn.access": {"level": "WARNING"},
        },
    }
