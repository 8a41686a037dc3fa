"""How far our estimates are from what the bundled model reports, before and after ten calls of a conversation.

Each kind of content is one growing conversation, sent as a turn would send it; the answer is cut off after one token. The
baseline beside each figure is the error of the same request without calibration.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from itertools import cycle, islice
from pathlib import Path

from agentx.embedded.llama import MODEL_ID, EmbeddedLlama
from agentx.errors import ProviderUnreachable
from agentx.llm.calibration import CONVERSATION, update_ratio
from agentx.llm.client import ChatModelSettings, LangchainChatModel
from agentx.llm.messages import AssistantMessage, ChatMessage, SystemMessage, UsageReport, UserMessage
from agentx.llm.tokens import default_counter
from tests.agentx.llm.samples import BASE64, CHINESE, JAPANESE, PYTHON
from tests.benchmarks.figures import Figure

ROOT = Path(__file__).resolve().parent.parent.parent
CALLS = 10
MOST_ERROR = 5.0  # percent
_ATTEMPTS = 3
# About 60 tokens a turn: the bundled model reads 100 tokens a second, and short requests are learned from only when they
# have 200.
_PIECE_CHARACTERS = {"prose": 250, "code": 200, "JSON": 150, "CJK": 50, "base64": 80}


def run() -> list[Figure]:
    """Measure; a minute on two idle cores, ten on busy ones."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedLlama(data_dir=Path(folder)) as model:
        return asyncio.run(_measure(model.url))


def texts() -> dict[str, str]:
    """One long text of each kind."""
    rows = [{"id": 1000 + n, "amount": n * 37.45, "paid": n % 3 == 0, "name": f"row {n}"} for n in range(200)]
    return {
        "prose": (ROOT / "ARCHITECTURE.md").read_text(),
        "code": PYTHON,
        "JSON": json.dumps(rows),
        "CJK": (CHINESE + JAPANESE) * 20,
        "base64": BASE64,
    }


async def _measure(base_url: str) -> list[Figure]:
    settings = ChatModelSettings(
        base_url=base_url, api_key="", model=MODEL_ID, connect_timeout=5, read_timeout=300
    )
    model = LangchainChatModel(settings)
    pieces = {kind: _pieces(text, _PIECE_CHARACTERS[kind]) for kind, text in texts().items()}
    mixed = [turn for turns in zip(*pieces.values(), strict=True) for turn in turns]
    try:
        return [
            await _figure(model, kind, turns)
            for kind, turns in {**pieces, "all of them in turn": mixed[: CALLS + 1]}.items()
        ]
    finally:
        await model.aclose()


def _pieces(text: str, size: int) -> list[str]:
    """As many turns as there are calls, one after another from the text, from its beginning again when it is short."""
    cut = [text[at : at + size] for at in range(0, len(text) - size, size)]
    return list(islice(cycle(cut), CALLS + 1))


async def _figure(model: LangchainChatModel, kind: str, turns: list[str]) -> Figure:
    """The error of the call after ten calibrated ones."""
    counter = default_counter()
    messages: list[ChatMessage] = [SystemMessage("Answer in one word.")]
    ratio, calls, before, after = 1.0, 0, 0.0, 0.0
    for turn in turns:
        messages.append(UserMessage(turn))
        estimated, reported = counter.count_request(messages=messages), await _reported(model, messages)
        before, after = _error(estimated, reported), _error(estimated * ratio, reported)
        ratio, calls = update_ratio(
            ratio=ratio, calls=calls, reported=reported, estimated=estimated, scope=CONVERSATION
        )
        messages.append(AssistantMessage("Yes."))
    return Figure(f"estimate error after {CALLS} calls, {kind}", after, "%", MOST_ERROR, baseline=before)


def _error(estimate: float, reported: int) -> float:
    return abs(estimate / reported - 1) * 100


async def _reported(model: LangchainChatModel, messages: list[ChatMessage]) -> int:
    """What the model says the request had. On a busy machine its server drops a connection now and then: ask again."""
    for attempt in range(_ATTEMPTS):
        try:
            items = [item async for item in model.stream(messages=messages, max_output_tokens=1)]
            return next(item.prompt_tokens or 0 for item in items if isinstance(item, UsageReport))
        except ProviderUnreachable:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")
