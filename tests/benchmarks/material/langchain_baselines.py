"""What langchain and deepagents do with the same conversation: trimming, and summarizing with a summarizer that costs nothing.

Both keep the conversation as a list of messages and look at all of it before every call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from langchain.agents.middleware import ModelRequest, ModelResponse, SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately

from agentx.llm.tokens import MESSAGE_OVERHEAD, TokenCounter

KEEP_MESSAGES = 20


def messages_load(*, conversation: UUID, through_seq: int, system_prompt: str) -> list[AnyMessage]:
    """The rows of a conversation up to a question as langchain messages behind a system message."""
    from conversations.selectors.snapshot import live_messages

    rows = live_messages(conversation_id=conversation).filter(seq__lte=through_seq).order_by("seq")
    built: list[AnyMessage] = [SystemMessage(system_prompt)]
    for role, content in rows.values_list("role", "content"):
        built.append(HumanMessage(content) if role == "user" else AIMessage(content))
    return built


def trim(messages: Sequence[AnyMessage], *, budget: int, counter: TokenCounter | None) -> list[Any]:
    """The newest messages that fit. ``counter``: ours, or None for langchain's own of four characters a token."""

    def count(counted: Sequence[AnyMessage]) -> int:
        assert counter is not None
        return sum(counter.count_text(str(item.content)) + MESSAGE_OVERHEAD for item in counted)

    return trim_messages(
        messages,
        max_tokens=budget,
        strategy="last",
        token_counter=count if counter else count_tokens_approximately,
        start_on="human",
        include_system=True,
    )


def langchain_summarizer(*, budget: int) -> Callable[[Sequence[AnyMessage]], Any]:
    """One pass of langchain's summarization middleware, which finds more than ``budget`` tokens."""
    middleware = SummarizationMiddleware(
        model=_free_model(), trigger=("tokens", budget), keep=("messages", KEEP_MESSAGES)
    )

    def call(messages: Sequence[AnyMessage]) -> Any:
        changed = middleware.before_model({"messages": list(messages)}, runtime=None)  # type: ignore[arg-type]
        assert changed is not None
        return changed

    return call


def deepagents_summarizer(*, budget: int, folder: Path) -> Callable[[Sequence[AnyMessage]], Any] | None:
    """The same of deepagents, which also writes what it takes out to a file; None where it is not installed."""
    try:
        from deepagents.backends import FilesystemBackend
        from deepagents.middleware.summarization import SummarizationMiddleware as Middleware
    except ImportError:
        return None
    model = _free_model()
    middleware = Middleware(
        model=model,
        backend=FilesystemBackend(root_dir=folder, virtual_mode=True),
        trigger=("tokens", budget),
        keep=("messages", KEEP_MESSAGES),
    )

    def call(messages: Sequence[AnyMessage]) -> Any:
        sent: list[ModelRequest] = []

        def answer(request: ModelRequest) -> ModelResponse:
            sent.append(request)
            return ModelResponse(result=[AIMessage("ok")])

        listed = list(messages)
        request = ModelRequest(model=model, messages=listed[1:], state={"messages": listed[1:]})  # type: ignore[arg-type]
        middleware.wrap_model_call(request, answer)
        assert len(sent[0].messages) < len(listed)
        return sent[0].messages

    return call


def _free_model() -> FakeListChatModel:
    return FakeListChatModel(responses=["What was said so far, in short."])
