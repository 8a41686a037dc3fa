"""What Django's door for ASGI does with threads and streams, with the middleware of the installation around the views."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import SyncToAsync, iscoroutinefunction
from asgiref.testing import ApplicationCommunicator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from agentx.handler import OneHopHandler

# Only a test that fails waits for so long.
PATIENCE = 20


class Stream:
    """The stream of the test that runs: what it waits for in the middle, and whether it has ended."""

    gate: asyncio.Event
    ended: bool


def _thread_view(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(threading.current_thread().name)


async def _words() -> AsyncIterator[bytes]:
    try:
        yield b"one"
        await Stream.gate.wait()
        yield threading.current_thread().name.encode()
    finally:
        Stream.ended = True


def _stream_view(_request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(_words())


urlpatterns = [path("thread", _thread_view), path("stream", _stream_view)]


class ThreadMiddleware:
    """Writes down in which thread it was gone through, inwards and outwards."""

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        before = threading.current_thread().name
        response = self._get_response(request)
        response["X-Threads"] = f"{before} {threading.current_thread().name}"
        return response


@pytest.fixture
def handler(settings) -> OneHopHandler:
    Stream.gate, Stream.ended = asyncio.Event(), False
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.ThreadMiddleware"]
    return OneHopHandler()


async def _ask(handler: OneHopHandler, address: str) -> tuple[ApplicationCommunicator, dict[str, Any]]:
    """The request, sent, and the head of its answer with names in lower case."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": address,
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
    }
    client = ApplicationCommunicator(handler, scope)
    await client.send_input({"type": "http.request"})
    head = await client.receive_output(PATIENCE)
    headers = {name.decode().lower(): value.decode() for name, value in head["headers"]}
    return client, {"status": head["status"], "headers": headers}


def test_middleware_is_loaded_for_threads(handler):
    assert not iscoroutinefunction(handler._middleware_chain)


async def test_a_request_goes_into_its_thread_once_whatever_middleware_stands_around_it(handler, monkeypatch):
    hops: list[str] = []
    call = SyncToAsync.__call__

    async def counted(self: SyncToAsync, *args: Any, **kwargs: Any) -> Any:
        hops.append(getattr(self.func, "__name__", repr(self.func)))
        return await call(self, *args, **kwargs)

    monkeypatch.setattr(SyncToAsync, "__call__", counted)

    client, head = await _ask(handler, "/thread")
    body = await client.receive_output(PATIENCE)
    await client.wait(PATIENCE)

    view = body["body"].decode()
    assert head["status"] == 200
    assert head["headers"]["x-threads"] == f"{view} {view}"
    assert view != threading.main_thread().name
    # Django's own before a request and at its end do not count.
    assert [name for name in hops if name not in ("sync_send", "close")] == ["get_response"]


async def test_a_stream_comes_out_of_the_event_loop_piece_by_piece(handler):
    client, head = await _ask(handler, "/stream")

    first = await client.receive_output(PATIENCE)
    waits = await client.receive_nothing()
    Stream.gate.set()
    second = await client.receive_output(PATIENCE)
    last = await client.receive_output(PATIENCE)
    await client.wait(PATIENCE)

    assert head["status"] == 200
    assert (first["body"], first["more_body"], waits) == (b"one", True, True)
    assert second["body"].decode() == threading.current_thread().name
    assert (last.get("body", b""), last.get("more_body", False)) == (b"", False)
    assert Stream.ended


async def test_a_stream_whose_reader_leaves_is_ended(handler):
    client, _ = await _ask(handler, "/stream")
    await client.receive_output(PATIENCE)

    await client.send_input({"type": "http.disconnect"})
    await client.wait(PATIENCE)

    assert Stream.ended
