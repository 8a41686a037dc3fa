"""The WebSocket door: frames become commands, events go out as they are logged."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import django.db
import orjson
import structlog
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from pydantic import ValidationError

from agentx.accounts.authentication import user_id_from_scope
from agentx.errors import AgentXError, NotFound, TooMany, Unavailable
from agentx.threads import in_db_thread
from conversations.events import (
    CLIENT_COMMAND,
    Accepted,
    Command,
    PingCommand,
    Pong,
    Refused,
    SendCommand,
    SteerCommand,
    Steering,
    StopCommand,
    Stopping,
    Titled,
    Waiting,
    WithdrawCommand,
)
from conversations.selectors import access
from conversations.selectors.steers import steers_waiting
from conversations.services.attach import Item, run_follow
from conversations.services.cancel import run_cancel
from conversations.services.hub import log_hub
from conversations.services.steer import steer_withdraw, turn_steer
from conversations.services.submit import turn_submit
from conversations.wire import Wire

log = structlog.get_logger(__name__)

NOT_SIGNED_IN, NOT_FOUND, TOO_SLOW, FLOODING = 4401, 4404, 4408, 4429
TRY_AGAIN_LATER = 1013
COMMAND_NAMES = ("send", "stop", "steer", "withdraw", "attach", "ping")
# Commands a socket may send: 60 at once, then 10 a second. A person types far less; a loop far more.
COMMANDS_BURST, COMMANDS_PER_SECOND = 60.0, 10.0
# How often an open socket checks that its session still stands.
SESSION_CHECK_SECONDS = 30.0


class ChatConsumer(AsyncWebsocketConsumer):
    """One socket on one conversation."""

    async def connect(self) -> None:
        self._follows: dict[UUID, asyncio.Task[None]] = {}
        self._followed: set[UUID] = set()  # a late notice must not play a run again
        self._background: set[asyncio.Task[None]] = set()
        self._allowance, self._refilled = COMMANDS_BURST, time.monotonic()
        self._sending = asyncio.Lock()
        self._scope: dict[str, Any] = dict(self.scope)
        self.conversation_id: UUID = self._scope["url_route"]["kwargs"]["conversation_id"]
        await self.accept()
        # Closing before accepting would show the browser a bare 403 without a code.
        refusal = await self._refusal()
        if refusal is not None:
            await self.close(code=refusal)
            return
        self._spawn(self._watch_notices())
        self._spawn(self._watch_session())

    async def _refusal(self) -> int | None:
        """The close code for a peer that may not be here; sets ``user_id`` for one that may."""
        try:
            user_id = await in_db_thread(user_id_from_scope, self._scope)
            if user_id is None:
                return NOT_SIGNED_IN
            await in_db_thread(access.conversation_get, user_id=user_id, conversation_id=self.conversation_id)
        except NotFound:
            return NOT_FOUND
        except django.db.Error:
            return TRY_AGAIN_LATER
        self.user_id = user_id
        return None

    async def disconnect(self, code: int) -> None:
        for task in [*self._follows.values(), *self._background]:
            task.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if not hasattr(self, "user_id"):
            return
        if not self._spend_allowance():
            await self.close(code=FLOODING)
            return
        try:
            await self.receive_json(text_data if text_data is not None else bytes_data or b"")
        except TimeoutError:
            await self.close(code=TOO_SLOW)

    async def receive_json(self, frame: str | bytes) -> None:
        """Hop 1 of a turn: frame to typed command, command to service, refusal to frame."""
        client_key, name = None, "unknown"
        try:
            body = orjson.loads(frame)
            if isinstance(body, dict):
                name, client_key = str(body.get("type")), body.get("client_key")
            command = CLIENT_COMMAND.validate_python(body)
            await self._carry_out(command)
        except (ValidationError, orjson.JSONDecodeError) as error:
            key = client_key if isinstance(client_key, str) else None
            await self._send(
                Refused(
                    command=name[:40],
                    client_key=key,
                    code="invalid_command",
                    message=_describe(error),
                    retryable=False,
                )
            )
        except (AgentXError, django.db.Error) as error:
            failure = error if isinstance(error, AgentXError) else Unavailable()
            await self._send(
                Refused(
                    command=name[:40],
                    client_key=client_key,
                    code=failure.code,
                    message=failure.message,
                    retryable=failure.retryable,
                    details=failure.details,
                )
            )

    async def _carry_out(self, command: Command) -> None:
        if isinstance(command, PingCommand):
            await self._send(Pong())
        elif isinstance(command, SendCommand):
            await self._submit(command)
        elif isinstance(command, StopCommand):
            await self._require_here(command.run_id)
            run = await in_db_thread(run_cancel, user_id=self.user_id, run_id=command.run_id)
            await self._send(Stopping(run_id=run.id, status=run.status))
        elif isinstance(command, SteerCommand):
            await self._steer(command)
        elif isinstance(command, WithdrawCommand):
            steer, gone = await in_db_thread(steer_withdraw, user_id=self.user_id, steer_id=command.steer_id)
            await self._send(Steering(client_key=steer.client_key, steer=steer, withdrawn=gone))
        else:
            await self._require_here(command.run_id)
            self._follow(command.run_id, after=command.after, epoch=command.epoch, again=True)
            await self._send_waiting(command.run_id, even_none=False)

    async def _submit(self, command: SendCommand) -> None:
        """``accepted`` goes out before the run's first event, although its notice may come back sooner."""
        async with self._sending:
            accepted = await in_db_thread(
                turn_submit,
                user_id=self.user_id,
                conversation_id=self.conversation_id,
                content=command.content,
                client_key=command.client_key,
                expected_head=command.expected_head,
            )
            await self._send(Accepted(client_key=command.client_key, **dict(accepted)))
        self._follow(accepted.run.id)

    async def _steer(self, command: SteerCommand) -> None:
        await self._require_here(command.run_id)
        accepted = await in_db_thread(
            turn_steer,
            user_id=self.user_id,
            run_id=command.run_id,
            content=command.content,
            client_key=command.client_key,
        )
        await self._send(Steering(client_key=command.client_key, steer=accepted.steer))

    async def _require_here(self, run_id: UUID) -> None:
        run = await in_db_thread(access.run_get, user_id=self.user_id, run_id=run_id)
        if run.conversation_id != self.conversation_id:
            raise NotFound("There is no such run in this conversation")

    def _follow(self, run_id: UUID, *, after: int = 0, epoch: str | None = None, again: bool = False) -> None:
        """Send a run's events from ``after`` on. A run that is followed already is left alone unless asked ``again``."""
        self._followed.add(run_id)
        if (old := self._follows.get(run_id)) is not None:
            if not again:
                return
            old.cancel()
        items = run_follow(user_id=self.user_id, run_id=run_id, after=after, epoch=epoch)
        task = asyncio.create_task(self._forward(items))
        self._follows[run_id] = task
        task.add_done_callback(lambda done: self._follow_ended(run_id, done))

    def _follow_ended(self, run_id: UUID, done: asyncio.Task[None]) -> None:
        if self._follows.get(run_id) is done:
            del self._follows[run_id]
        if not done.cancelled():
            done.exception()  # a socket that broke while it was being closed is no news

    async def _forward(self, items: AsyncIterator[Item]) -> None:
        try:
            async with contextlib.aclosing(items) as source:  # type: ignore[type-var]
                async for item in source:
                    await self._send_text(item.payload.decode())
        except (TooMany, TimeoutError):
            await self.close(code=TOO_SLOW)
        except AgentXError as error:
            await self._send(
                Refused(command="attach", code=error.code, message=error.message, retryable=error.retryable)
            )
        except django.db.Error:
            await self.close(code=TRY_AGAIN_LATER)  # the browser reconnects and attaches
        except OSError:
            pass  # the peer has gone, and uvicorn says so by an error of its own
        except Exception:
            log.exception("follow_failed")
            await self.close(code=TRY_AGAIN_LATER)  # an open socket that says nothing would be worse

    async def _watch_notices(self) -> None:
        """Follow runs that other tabs and scripts start in this conversation."""
        with log_hub().noticing(conversation_id=str(self.conversation_id)) as notices:
            while True:
                notice = await notices.get()
                if notice["kind"] == "steer":
                    await self._send_waiting(UUID(notice["run"]))
                if notice["kind"] == "titled":
                    await self._send_title()
                if notice["kind"] == "queued" and UUID(notice["run"]) not in self._followed:
                    async with self._sending:  # our own send: let its ``accepted`` go first
                        pass
                    self._follow(UUID(notice["run"]))

    async def _send_waiting(self, run_id: UUID, *, even_none: bool = True) -> None:
        with contextlib.suppress(AgentXError, django.db.Error):  # it is told again with the next change
            steers = await in_db_thread(steers_waiting, user_id=self.user_id, run_id=run_id)
            if steers or even_none:
                await self._send(Waiting(run_id=run_id, steers=steers))

    async def _send_title(self) -> None:
        with contextlib.suppress(AgentXError, django.db.Error):  # lists show it when they are next read
            row = await in_db_thread(
                access.conversation_get, user_id=self.user_id, conversation_id=self.conversation_id
            )
            await self._send(Titled(title=row.title))

    async def _watch_session(self) -> None:
        """A session that was ended elsewhere ends its sockets too."""
        while True:
            await asyncio.sleep(SESSION_CHECK_SECONDS)
            with contextlib.suppress(django.db.Error):
                if await in_db_thread(user_id_from_scope, self._scope) != self.user_id:
                    await self.close(code=NOT_SIGNED_IN)
                    return

    def _spend_allowance(self) -> bool:
        now = time.monotonic()
        self._allowance = min(COMMANDS_BURST, self._allowance + (now - self._refilled) * COMMANDS_PER_SECOND)
        self._refilled = now
        self._allowance -= 1
        return self._allowance >= 0

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send(self, frame: Wire) -> None:
        await self._send_text(frame.model_dump_json())

    async def _send_text(self, text: str) -> None:
        """One frame. A peer that does not read within ``SLOW_CLIENT_SECONDS`` raises ``TimeoutError``."""
        async with asyncio.timeout(settings.SLOW_CLIENT_SECONDS):
            await self.send(text_data=text)


class UnknownPath(AsyncWebsocketConsumer):
    """Every path that is no socket of ours: an answer with a code, not a server error."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(code=NOT_FOUND)
        raise StopConsumer


def _describe(error: ValidationError | orjson.JSONDecodeError) -> str:
    if isinstance(error, orjson.JSONDecodeError):
        return "A frame must be a JSON object"
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"] if part not in COMMAND_NAMES)
    return f"{where}: {first['msg']}" if where else str(first["msg"])
