"""A runner that starts before its model server is ready learns the server's window later."""

from __future__ import annotations

import asyncio

from aiohttp import web

from conversations import runner as runner_module
from conversations.runner import Runner


async def test_a_window_that_is_not_known_at_the_start_is_asked_for_again(
    settings, transactional_db, monkeypatch
):
    asked = 0

    async def props(_request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise web.HTTPServiceUnavailable  # as llama.cpp answers while it loads its model
        return web.json_response({"default_generation_settings": {"n_ctx": 4_096}})

    app = web.Application()
    app.router.add_get("/props", props)
    server = web.AppRunner(app)
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0)
    await site.start()
    port = server.addresses[0][1]
    settings.LLM_BASE_URL = f"http://127.0.0.1:{port}/v1"
    monkeypatch.setattr(runner_module, "WINDOW_ASKED_AFTER", (0.01,) * 5)
    runner = Runner()
    work = asyncio.create_task(runner.run())

    async with asyncio.timeout(20):
        while not getattr(runner, "_tools", None) or runner._tools.candidates[0].reported_window is None:
            await asyncio.sleep(0.01)

    assert (runner._tools.candidates[0].reported_window, asked) == (4_096, 3)
    assert runner._tools.candidates[0].request_counter is not None
    runner.stop()
    await asyncio.wait_for(work, 20)
    await server.cleanup()
