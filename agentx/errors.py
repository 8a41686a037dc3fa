"""The one exception tree. Every error a person or a client can meet is a class here.

Drawn, with the HTTP status and the WebSocket treatment each maps to::

    AgentXError                       500
    ├── RequestError                  what the caller sent cannot be done
    │   ├── InvalidInput              400  field errors in ``errors``
    │   ├── InvalidCredentials        400  wrong name or password
    │   ├── NotAuthenticated          401  (socket close 4401)
    │   ├── Forbidden                 403
    │   ├── NotFound                  404  also what belongs to somebody else (socket close 4404)
    │   ├── Conflict                  409
    │   │   ├── RunActive             409  carries the running run's id
    │   │   ├── RunEnded              409  a message for a run came after its end
    │   │   └── HeadMoved             409  the sender had not seen the newest message
    │   ├── TooLarge                  413
    │   ├── Unprocessable             422
    │   │   ├── KeyReused             422  same idempotency key, other body
    │   │   └── DoesNotFit            422  the question cannot fit the model's window
    │   └── TooMany                   429  carries ``retry_after`` seconds
    ├── Unavailable                   503  a part we need is down; retry later
    ├── TurnError                     ends a run; never an HTTP status of its own
    │   ├── TurnStopped               the person pressed stop            -> run ``cancelled``
    │   ├── LeaseLost                 another process owns the run now   -> nothing is written
    │   ├── Draining                  the runner shuts down              -> run ``interrupted``
    │   ├── EmptyAnswer               the model said nothing visible     -> run ``failed``
    │   └── ViewUnstable              a new epoch had no room either     -> run ``failed``
    └── ModelError                    the model provider failed          -> run ``failed``
        ├── RetryableModelError       worth another attempt when no output had begun
        │   ├── RateLimited           carries ``retry_after`` seconds or None
        │   ├── ProviderUnreachable   no connection, or no headers in time
        │   └── ProviderFailed        5xx
        ├── StreamBroken              connection lost, or no finish reason, after output began
        ├── MalformedStream           bytes that are not the protocol
        ├── ModelStalled              silence for longer than the stall limit
        ├── KeyRejected               401 or 403 from the provider
        ├── NotAnEndpoint             an answer, but not from an OpenAI-compatible server
        ├── RequestRefused            any other 4xx
        └── ContextOverflow           the provider says the request is too long

``code`` is stable and machine-readable; ``str(error)`` is one sentence a person can act on and never carries a
secret or an upstream body.
"""

from __future__ import annotations

from typing import Any, ClassVar


class AgentXError(Exception):
    """Root of the tree. ``code``: stable identifier; ``status``: HTTP status; ``retryable``: may succeed unchanged."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong on the server"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, **details: Any) -> None:
        super().__init__(message or self.title)
        self.details: dict[str, Any] = details

    @property
    def message(self) -> str:
        return str(self)


class RequestError(AgentXError):
    code = "invalid_request"
    status = 400
    title = "The request cannot be carried out"


class InvalidInput(RequestError):
    """``errors``: mapping of field name to a list of sentences."""

    code = "invalid_input"
    title = "The request has invalid fields"

    def __init__(
        self, message: str | None = None, *, errors: dict[str, list[str]] | None = None, **details: Any
    ):
        super().__init__(message, **details)
        self.errors: dict[str, list[str]] = errors or {}


class InvalidCredentials(RequestError):
    """Does not say which of the two was wrong, nor whether the account exists or is switched off."""

    code = "invalid_credentials"
    title = "Username or password is wrong"


class NotAuthenticated(RequestError):
    code = "not_authenticated"
    status = 401
    title = "Sign in first"


class Forbidden(RequestError):
    code = "forbidden"
    status = 403
    title = "This is not allowed"


class NotFound(RequestError):
    """Also raised for rows of other users, so that ids cannot be probed."""

    code = "not_found"
    status = 404
    title = "There is no such thing here"


class Conflict(RequestError):
    code = "conflict"
    status = 409
    title = "The state has changed meanwhile"


class RunActive(Conflict):
    """A second turn while one is queued or running. ``details["run_id"]`` names the active run."""

    code = "run_active"
    title = "An answer is still being written in this conversation"


class RunEnded(Conflict):
    """``details["run_id"]``: the run that a message was meant for and that is over."""

    code = "run_ended"
    title = "The answer is already finished; send the message as a new one"


class HeadMoved(Conflict):
    """``expected_head`` did not match. ``details["head"]`` is the newest seq."""

    code = "head_moved"
    title = "This conversation has newer messages than you have seen"


class TooLarge(RequestError):
    code = "too_large"
    status = 413
    title = "The request is too large"


class Unprocessable(RequestError):
    code = "unprocessable"
    status = 422
    title = "The request was understood but cannot be processed"


class KeyReused(Unprocessable):
    code = "key_reused"
    title = "This idempotency key was already used for a different message"


class DoesNotFit(Unprocessable):
    """``details``: ``needed``, ``budget`` and ``largest`` (block name), in tokens."""

    code = "does_not_fit"
    title = "The message does not fit into the model's window"


class TooMany(RequestError):
    code = "too_many_requests"
    status = 429
    title = "Too many requests"
    retryable = True

    def __init__(self, message: str | None = None, *, retry_after: int, **details: Any) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class Unavailable(AgentXError):
    code = "unavailable"
    status = 503
    title = "A part of the server is not available right now; try again in a moment"
    retryable = True


class TurnError(AgentXError):
    code = "turn_failed"
    title = "The turn could not be finished"


class TurnStopped(TurnError):
    code = "stopped"
    title = "Stopped"


class LeaseLost(TurnError):
    code = "lease_lost"
    title = "Another process has taken over this run"


class Draining(TurnError):
    code = "interrupted"
    title = "The server was restarted before the answer was finished"
    retryable = True


class EmptyAnswer(TurnError):
    code = "empty_answer"
    title = "The model ended its turn without saying anything; try again or rephrase"
    retryable = True


class ViewUnstable(TurnError):
    """Two cuts would have followed each other without a turn between them: a loop, which is a failure instead."""

    code = "view_unstable"
    title = "The conversation could not be brought into the model's window; try again, or start a new conversation"
    retryable = True


class ModelError(AgentXError):
    """``output_started``: whether any content, reasoning or tool-call delta had arrived before the failure."""

    code = "model_error"
    status = 502
    title = "The model provider failed"

    def __init__(self, message: str | None = None, *, output_started: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.output_started = output_started


class RetryableModelError(ModelError):
    retryable = True


class RateLimited(RetryableModelError):
    code = "rate_limited"
    title = "The model provider is limiting requests; try again later"

    def __init__(
        self, message: str | None = None, *, retry_after: float | None = None, **details: Any
    ) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class ProviderUnreachable(RetryableModelError):
    code = "model_unreachable"
    title = "The model server cannot be reached; check that it runs and that LLM_BASE_URL is right"


class ProviderFailed(RetryableModelError):
    code = "provider_failed"
    title = "The model server answered with an internal error; try again"


class StreamBroken(ModelError):
    code = "stream_broken"
    title = "The connection to the model broke off before the answer was finished"
    retryable = True


class MalformedStream(ModelError):
    code = "malformed_stream"
    title = "The model server sent data that is not valid; the answer so far is kept"
    retryable = True


class ModelStalled(ModelError):
    """``details["seconds"]``: how long there was silence."""

    code = "stalled"
    title = "The model stopped sending; the answer so far is kept"
    retryable = True


class KeyRejected(ModelError):
    code = "key_rejected"
    title = "The model provider rejected the API key; check LLM_API_KEY"


class NotAnEndpoint(ModelError):
    code = "not_an_endpoint"
    title = "LLM_BASE_URL answers, but not as an OpenAI-compatible endpoint"


class RequestRefused(ModelError):
    """``details["http_status"]``: what the provider answered."""

    code = "request_refused"
    title = "The model provider refused the request"


class ContextOverflow(ModelError):
    """``details``: ``window`` and ``prompt_tokens`` when the provider says them, else None."""

    code = "context_overflow"
    title = "The request is longer than the model's window"
