"""An OpenAI-compatible server that says what a test tells it to, so that tests need no model and no network.

Endpoints: ``POST /v1/chat/completions``, ``GET /v1/models``; when given a window also those of llama.cpp's own interface:
``GET /props``, ``POST /apply-template`` and ``POST /tokenize``, which count as the usage of an answer does;
and for tests in another process ``POST /__script`` (one script as JSON), ``GET /__stats`` and ``POST /__reset``.
A pushed script whose ``match`` fits goes first; then a behaviour named in the newest question, as in
``[[scripted-stall-n3]]``, which lets a browser choose it; then the behaviour of the model's name.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from aiohttp import web

from tests.scripted_model.naming import BEHAVIOURS, count_text, prompt_text, prompt_tokens, script_for
from tests.scripted_model.scripts import Script


class State:
    """What was asked and what is still to be said. Shared between the server's thread and the test's."""

    def __init__(self, *, window: int | None) -> None:
        self.window = window
        self.live = 0
        self.changed = threading.Condition(threading.RLock())
        self.reset()

    def reset(self) -> None:
        with self.changed:
            self.scripts: list[Script] = []
            self.requests: list[dict[str, Any]] = []
            self.headers: list[dict[str, str]] = []
            self.disconnects = 0
            self.peak = self.live
            self._sent_before: Counter[str] = Counter()
            self.changed.notify_all()

    def push(self, script: Script) -> None:
        with self.changed:
            self.scripts.append(script)

    def choose(self, body: dict[str, Any], headers: Mapping[str, str]) -> Script:
        """Record the request and take its script. KeyError when neither the queue nor the name has one."""
        with self.changed:
            self.requests.append(body)
            self.headers.append(dict(headers))
            self.changed.notify_all()
            key = hashlib.sha256(json.dumps([body["model"], body["messages"]]).encode()).hexdigest()
            earlier = self._sent_before[key]
            self._sent_before[key] += 1
            question = _newest_question(body)
            for index, script in enumerate(self.scripts):
                if script.match is not None and script.match not in question:
                    continue
                if script.times == 1:
                    del self.scripts[index]
                elif script.times > 1:
                    self.scripts[index] = replace(script, times=script.times - 1)
                return script
        asked = re.search(r"\[\[(scripted[\w-]*)\]\]", question)
        return script_for(asked[1] if asked else str(body["model"]), body=body, earlier=earlier)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Counts a stream while it runs, and the client that leaves before its end."""
        with self.changed:
            self.live += 1
            self.peak = max(self.peak, self.live)
        left = False
        try:
            yield
        except (asyncio.CancelledError, ConnectionError):
            left = True
            raise
        finally:
            with self.changed:
                self.live -= 1
                self.disconnects += left
                self.changed.notify_all()


STATE: web.AppKey[State] = web.AppKey("state", State)


def app_make(*, window: int | None = None) -> web.Application:
    """The server, to be run with ``handler_cancellation=True`` so that a leaving client is noticed at once."""
    app = web.Application(client_max_size=256 * 1024**2)
    app[STATE] = State(window=window)
    app.add_routes(
        [
            web.post("/v1/chat/completions", _chat),
            web.get("/v1/models", _models),
            web.get("/props", _props),
            web.post("/apply-template", _apply_template),
            web.post("/tokenize", _tokenize),
            web.post("/__script", _script),
            web.get("/__stats", _stats),
            web.post("/__reset", _reset),
        ]
    )
    return app


async def _chat(request: web.Request) -> web.StreamResponse:
    state = request.app[STATE]
    body = await request.json()
    try:
        script = state.choose(body, request.headers)
    except KeyError:
        return web.json_response(
            {"error": {"message": "There is no such model", "code": "model_not_found"}}, status=404
        )
    async with state.serving():
        if script.silent:
            await asyncio.Event().wait()
        if script.body is not None:
            key = request.headers.get("Authorization", "").removeprefix("Bearer ")
            text = script.body.replace("{key}", key)
            return web.Response(body=text.encode(), status=script.status, headers=script.headers)
        if body.get("stream"):
            return await _Stream(request, script, body).run()
        return await _answer_whole(request, script, body)


class _Stream:
    """Writes a script as server-sent events, each one flushed by itself."""

    def __init__(self, request: web.Request, script: Script, body: Mapping[str, Any]) -> None:
        self._request, self._script, self._body = request, script, body
        self._response = web.StreamResponse(
            status=script.status,
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache", **script.headers},
        )
        self._base = {
            "id": f"chatcmpl-{id(self):x}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": body["model"],
        }
        # All chunks have the same frame around the delta: it is serialised once.
        self._head = b"data: " + json.dumps(self._base)[:-1].encode() + b',"choices":[{"index":0,"delta":'
        self._due = time.monotonic() + script.first_token_seconds
        self._tokens = Counter[str]()

    async def run(self) -> web.StreamResponse:
        await self._response.prepare(self._request)
        for kind, value in self._script.steps:
            if kind == "drop":
                _connection_drop(self._request, value)
                return self._response
            await self._step(kind, value)
        await self._response.write_eof()
        return self._response

    async def _step(self, kind: str, value: Any) -> None:
        if kind == "delta":
            await self._delta(value)
        elif kind == "stamp":
            await self._pace()
            await self._delta_write({"content": f"{value}:{time.monotonic_ns() // 1000} "})
        elif kind == "finish":
            await self._finish(value)
        elif kind == "endless":
            while True:
                await self._delta({"content": value})
        elif kind == "comments":
            while True:
                await self._response.write(b": still here\n\n")
                await asyncio.sleep(value)
        elif kind == "wait":
            await asyncio.sleep(value)
        elif kind == "hang":
            await asyncio.Event().wait()
        else:
            await self._response.write(self._event(kind, value))

    def _event(self, kind: str, value: Any) -> bytes:
        if kind == "raw":
            return value.encode("latin-1")
        if kind == "comment":
            return f": {value}\n\n".encode()
        if kind == "error":
            return b"data: " + json.dumps({"error": value}).encode() + b"\n\n"
        if kind == "chunk":
            return b"data: " + json.dumps({**self._base, "choices": [], **value}).encode() + b"\n\n"
        raise ValueError(f"unknown step {kind!r}")

    async def _delta(self, delta: Mapping[str, Any]) -> None:
        await self._pace()
        await self._delta_write(delta)

    async def _delta_write(self, delta: Mapping[str, Any]) -> None:
        self._tokens.update(delta.keys())
        await self._response.write(self._head + json.dumps(delta).encode() + b',"finish_reason":null}]}\n\n')

    async def _pace(self) -> None:
        """Waits until this token is due by the clock, so that small delays do not add up."""
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))
        if self._script.tokens_per_second:
            self._due += 1 / self._script.tokens_per_second

    async def _finish(self, reason: str) -> None:
        end = self._event("chunk", {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        if (self._body.get("stream_options") or {}).get("include_usage"):
            end += self._event("chunk", {"usage": self._script.usage or _usage(self._body, self._tokens)})
        await self._response.write(end + b"data: [DONE]\n\n")


async def _answer_whole(request: web.Request, script: Script, body: Mapping[str, Any]) -> web.StreamResponse:
    """The same script for a request without streaming, after the time that the stream would have taken."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    reason, tokens = None, Counter[str]()
    seconds = script.first_token_seconds
    for kind, value in script.steps:
        if kind == "delta":
            tokens.update(value.keys())
            seconds += 1 / script.tokens_per_second if script.tokens_per_second else 0.0
            _delta_fold(message, value)
        elif kind == "finish":
            reason = value
        elif kind == "error":
            return web.json_response({"error": value})
        elif kind == "drop":
            _connection_drop(request, value)
        elif kind in {"hang", "endless", "comments"}:
            await asyncio.Event().wait()
    await asyncio.sleep(seconds)
    choice = {"index": 0, "message": message, "finish_reason": reason}
    answer = {
        "id": "chatcmpl-whole",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body["model"],
    }
    return web.json_response({**answer, "choices": [choice], "usage": script.usage or _usage(body, tokens)})


def _delta_fold(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for key, value in delta.items():
        if isinstance(value, str):
            message[key] = (message.get(key) or "") + value
    for part in delta.get("tool_calls", ()):
        calls = message.setdefault("tool_calls", [])
        if "id" in part:
            calls.append({**part, "function": dict(part["function"])})
        else:
            calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]


def _connection_drop(request: web.Request, how: str) -> None:
    if request.transport is not None:
        request.transport.abort() if how == "reset" else request.transport.close()


def _usage(body: Mapping[str, Any], tokens: Counter[str]) -> dict[str, Any]:
    """Prompt by the characters of the request; output by deltas; nothing was cached."""
    prompt, output = prompt_tokens(body), tokens.total()
    reasoning = tokens["reasoning_content"] + tokens["reasoning"]
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def _newest_question(body: Mapping[str, Any]) -> str:
    for message in reversed(body["messages"]):
        if message.get("role") == "user":
            return str(message.get("content"))
    return ""


async def _models(request: web.Request) -> web.Response:
    names = ["-".join(filter(None, ["scripted", behaviour])) for behaviour in BEHAVIOURS]
    cards = [{"id": name, "object": "model", "created": 0, "owned_by": "tests"} for name in names]
    return web.json_response({"object": "list", "data": cards})


async def _props(request: web.Request) -> web.Response:
    window = request.app[STATE].window
    if window is None:
        raise web.HTTPNotFound
    return web.json_response({"default_generation_settings": {"n_ctx": window}})


async def _apply_template(request: web.Request) -> web.Response:
    if request.app[STATE].window is None:
        raise web.HTTPNotFound
    return web.json_response({"prompt": prompt_text(await request.json())})


async def _tokenize(request: web.Request) -> web.Response:
    if request.app[STATE].window is None:
        raise web.HTTPNotFound
    text = (await request.json())["content"]
    return web.json_response({"tokens": list(range(count_text(text)))})


async def _script(request: web.Request) -> web.Response:
    try:
        request.app[STATE].push(Script.from_json(await request.json()))
    except (TypeError, ValueError) as error:
        raise web.HTTPBadRequest(text=f"not a script: {error}") from error
    return web.json_response({"ok": True})


async def _stats(request: web.Request) -> web.Response:
    state = request.app[STATE]
    return web.json_response(
        {"live": state.live, "peak": state.peak, "disconnects": state.disconnects, "requests": state.requests}
    )


async def _reset(request: web.Request) -> web.Response:
    request.app[STATE].reset()
    return web.json_response({"ok": True})
