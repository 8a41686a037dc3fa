"""Figures for operators: what prompts cost, what compaction does, and how often counting went wrong.

Web, runner and worker are processes of their own, so each writes its figures into files of one folder and whichever is
asked adds them up (the multi-process mode of prometheus_client, which must know the folder before it is imported; hence
the imports within functions). Recording writes to mapped memory: it waits for nothing, and no failure of it ever
reaches the caller.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec

import structlog
from django.conf import settings

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

log = structlog.get_logger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Powers of two from a short question to the largest windows there are, in tokens.
_TOKEN_BUCKETS = tuple(float(2**power) for power in range(8, 21))
_SHARE_BUCKETS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)

_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True, slots=True)
class _Figures:
    input_tokens: Histogram
    tokens: Counter
    cache_ratio: Histogram
    epochs: Counter
    evicted: Counter
    shortened: Counter
    overflow_retries: Counter
    counts_missed: Counter


@cache
def _figures() -> _Figures:
    """Made with the first figure that is recorded, since from then on there are files of this process."""
    _folder_prepare()
    from prometheus_client import CollectorRegistry, Counter, Histogram

    own = CollectorRegistry()
    return _Figures(
        input_tokens=Histogram(
            "agentx_input_tokens",
            "Prompt tokens of one model call, as reported.",
            ["model"],
            buckets=_TOKEN_BUCKETS,
            registry=own,
        ),
        tokens=Counter(
            "agentx_tokens", "Tokens as reported, by what for.", ["model", "purpose", "kind"], registry=own
        ),
        cache_ratio=Histogram(
            "agentx_cache_read_ratio",
            "Cached tokens as a share of the prompt of one model call.",
            ["model"],
            buckets=_SHARE_BUCKETS,
            registry=own,
        ),
        epochs=Counter(
            "agentx_context_epochs", "Times a view was begun anew, by why.", ["reason"], registry=own
        ),
        evicted=Counter("agentx_evicted_messages", "Messages that left a view.", registry=own),
        shortened=Counter(
            "agentx_shortened_tool_arguments", "Tool calls whose arguments were clipped.", registry=own
        ),
        overflow_retries=Counter(
            "agentx_context_overflow_retries",
            "Requests that a provider called too long and that were sent again, smaller.",
            ["model"],
            registry=own,
        ),
        counts_missed=Counter(
            "agentx_exact_counts_missed", "Exact token counts that were asked for and not had.", registry=own
        ),
    )


def _folder_prepare() -> None:
    """The folder exists and prometheus_client, which is imported next, will know it. Raises ``OSError``."""
    settings.METRICS_DIR.mkdir(parents=True, exist_ok=True)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(settings.METRICS_DIR)


def _never_raising(record: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
    @wraps(record)
    def recorded(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        try:
            record(*args, **kwargs)
        except Exception as error:  # a full disk must not cost an answer
            log.warning("metric_lost", metric=record.__name__, error=type(error).__name__)

    return recorded


@_never_raising
def call_count(
    *,
    model: str,
    prompt_tokens: int | None,
    cached_tokens: int | None,
    output_tokens: int | None,
    purpose: str = "chat",
) -> None:
    """One model call, in tokens as the provider reported them; what it did not report is not guessed."""
    figures = _figures()
    kinds = {"prompt": prompt_tokens, "cached": cached_tokens, "output": output_tokens}
    for kind, tokens in kinds.items():
        if tokens is not None:
            figures.tokens.labels(model=model, purpose=purpose, kind=kind).inc(tokens)
    if prompt_tokens is not None:
        figures.input_tokens.labels(model=model).observe(prompt_tokens)
    if prompt_tokens and cached_tokens is not None:
        figures.cache_ratio.labels(model=model).observe(cached_tokens / prompt_tokens)


@_never_raising
def epoch_count(*, reason: str, evicted: int, shortened: int) -> None:
    """One change of epoch: messages that left the view, and tool calls whose arguments were clipped."""
    figures = _figures()
    figures.epochs.labels(reason=reason).inc()
    figures.evicted.inc(evicted)
    figures.shortened.inc(shortened)


@_never_raising
def overflow_retry_count(*, model: str) -> None:
    """A request is made smaller and sent again because a provider called it too long."""
    _figures().overflow_retries.labels(model=model).inc()


@_never_raising
def missed_count_count() -> None:
    """An exact count was asked for and not had, so that an estimate had to do."""
    _figures().counts_missed.inc()


def metrics_render() -> bytes:
    """The sum over all processes in Prometheus' text format. Raises ``OSError`` when the folder cannot be read."""
    _folder_prepare()
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(settings.METRICS_DIR))
    return generate_latest(registry)
