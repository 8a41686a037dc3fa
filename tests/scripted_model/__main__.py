"""Runs the scripted model by itself: ``python -m tests.scripted_model --port 9200``."""

from __future__ import annotations

import argparse

from aiohttp import web

from tests.scripted_model.server import app_make


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible model server on 127.0.0.1.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--window", type=int, help="tokens that /props reports; without it /props is 404")
    asked = parser.parse_args()
    web.run_app(
        app_make(window=asked.window),
        host="127.0.0.1",
        port=asked.port,
        access_log=None,
        handler_cancellation=True,
        backlog=1024,
        shutdown_timeout=0.1,
    )


if __name__ == "__main__":
    main()
