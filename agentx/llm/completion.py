"""One answer to one request, for tasks behind the scenes: the same seam, failures and candidates as a turn's.

It streams like a turn, so that a server that sends nothing for a while is told from one that works.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from agentx.errors import ModelError, ModelStalled
from agentx.llm.client import ChatModel
from agentx.llm.health import RouteHealth, is_refused, is_unavailable
from agentx.llm.messages import ChatMessage, ContentDelta, Finish, UsageReport
from agentx.llm.routes import ModelRoute

log = structlog.get_logger(__name__)

_NO_USAGE = UsageReport(prompt_tokens=None, cached_tokens=None, output_tokens=None, reasoning_tokens=None)


@dataclass(frozen=True, slots=True)
class Completion:
    """``text``: without reasoning. ``finish_reason``: ``length`` where it was cut, empty where the call failed on its way.
    ``route``: the model that gave it. ``milliseconds``: from the request to its end.
    """

    text: str
    finish_reason: str
    usage: UsageReport
    route: ModelRoute
    milliseconds: int


async def complete(
    *,
    routes: Sequence[ModelRoute],
    model_make: Callable[[ModelRoute], ChatModel],
    health: RouteHealth,
    messages: Sequence[ChatMessage],
    max_output_tokens: int,
    timeout: float,
    record: Callable[[Completion], None],
) -> Completion:
    """Ask the first candidate that serves, each for at most ``timeout`` seconds.

    ``record``: is told of every call that a provider took, also of one that failed in its answer: it is paid for. Raises ``ModelError``: the first candidate's where none serves, or that of one which failed in its answer.
    """
    first_error: ModelError | None = None
    for route in health.order(routes, route_of=lambda route: route):
        try:
            completion = await _ask(route, model_make(route), messages, max_output_tokens, timeout, record)
        except ModelError as error:
            if not is_unavailable(error):
                raise
            health.note_failure(route)
            log.warning("model_unavailable", model=route.model, host=route.host, error=error.code)
            first_error = first_error or error
        else:
            health.note_success(route)
            return completion
    assert first_error is not None, "there is always a candidate"
    raise first_error


async def _ask(
    route: ModelRoute,
    model: ChatModel,
    messages: Sequence[ChatMessage],
    max_output_tokens: int,
    timeout: float,
    record: Callable[[Completion], None],
) -> Completion:
    pieces: list[str] = []
    usage, reason, began = _NO_USAGE, "", time.monotonic()

    def completion() -> Completion:
        spent = round((time.monotonic() - began) * 1000)
        return Completion("".join(pieces), finish_reason=reason, usage=usage, route=route, milliseconds=spent)

    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            async for item in model.stream(messages=messages, max_output_tokens=max_output_tokens):
                if isinstance(item, ContentDelta):
                    pieces.append(item.text)
                elif isinstance(item, UsageReport):
                    usage = item
                elif isinstance(item, Finish):
                    reason = item.reason
    except TimeoutError:
        if not limit.expired():
            raise
        record(completion())
        raise ModelStalled(f"The model did not finish within {timeout:g} seconds", seconds=timeout) from None
    except ModelError as error:
        if not is_refused(error):
            record(completion())
        raise
    finally:
        await model.aclose()
    record(completion())
    return completion()
