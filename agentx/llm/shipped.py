"""The shipped table: what the makers of well-known models publish about them.

Sources: windows, output limits and inputs of OpenAI's models as langchain-openai ships them (from models.dev); others
from the makers' pages, named beside them. Where a figure depends on plan or date, the smaller one stands here: an operator
can raise it in the admin, and a window that is too large fails at the provider.
"""

from __future__ import annotations

import re
from dataclasses import replace

from agentx.llm.facts import ModelProfile, PromptCaching

# The bundled model; the same id as in agentx.embedded.llama, which the ground of the language models must not import.
BUNDLED = "smollm2-135m-instruct"
# An image of 1024 × 1024 pixels at high detail: 85 tokens and 170 for each of four tiles (OpenAI's vision guide).
_OPENAI_TILES = 765
# The same image at gpt-4o-mini's rates, 2,833 and 5,667, with which its images cost as many dollars as gpt-4o's.
_MINI_TILES = 25_501

# A version at the end of a model id, and the vendor that gateways write in front of it.
_DATE = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")


def _openai(name: str, window: int, output: int, *, image_tokens: int = 1_100) -> ModelProfile:
    return ModelProfile(
        name=name,
        max_input_tokens=window,
        max_output_tokens=output,
        prompt_caching="automatic",
        tokenizer="o200k_base",
        vision=True,
        image_tokens=image_tokens,
        source="shipped",
    )


def _hosted(name: str, window: int, output: int, *, caching: PromptCaching, vision: bool) -> ModelProfile:
    return ModelProfile(
        name=name,
        max_input_tokens=window,
        max_output_tokens=output,
        prompt_caching=caching,
        vision=vision,
        source="shipped",
    )


_SHIPPED = {
    profile.name: profile
    for profile in (
        ModelProfile(
            name=BUNDLED,
            max_input_tokens=8_192,  # max_position_embeddings of its config.json
            prompt_caching="automatic",  # llama.cpp reuses the common prefix of a slot
            tools=False,  # 135 million parameters write no reliable calls
            hosting="bundled",
            source="shipped",
        ),
        _openai("gpt-4o", 128_000, 16_384, image_tokens=_OPENAI_TILES),
        _openai("gpt-4o-mini", 128_000, 16_384, image_tokens=_MINI_TILES),
        _openai("gpt-4.1", 1_047_576, 32_768, image_tokens=_OPENAI_TILES),
        # At most 1,536 patches, at 1.62 tokens each for mini and 2.46 for nano (OpenAI's vision guide).
        _openai("gpt-4.1-mini", 1_047_576, 32_768, image_tokens=2_489),
        _openai("gpt-4.1-nano", 1_047_576, 32_768, image_tokens=3_779),
        _openai("gpt-5", 272_000, 128_000),
        _openai("gpt-5-mini", 272_000, 128_000),
        _openai("gpt-5-nano", 272_000, 128_000),
        _openai("gpt-5.1", 272_000, 128_000),
        _openai("gpt-5.2", 272_000, 128_000),
        _openai("gpt-5.4", 1_050_000, 128_000),
        _openai("gpt-5.4-mini", 400_000, 128_000),
        _openai("gpt-5.5", 1_050_000, 128_000),
        _openai("o3", 200_000, 100_000),
        _openai("o4-mini", 200_000, 100_000),
        # Anthropic's models overview, without the beta for a million tokens.
        _hosted("claude-haiku-4-5", 200_000, 64_000, caching="explicit", vision=True),
        _hosted("claude-sonnet-4-5", 200_000, 64_000, caching="explicit", vision=True),
        _hosted("claude-opus-4-5", 200_000, 64_000, caching="explicit", vision=True),
        # Google's models page; caching is implicit from the 2.5 generation on.
        _hosted("gemini-2.5-flash", 1_048_576, 65_536, caching="automatic", vision=True),
        _hosted("gemini-2.5-pro", 1_048_576, 65_536, caching="automatic", vision=True),
        # DeepSeek's pricing page: context caching on disk is on for everybody.
        _hosted("deepseek-chat", 128_000, 8_192, caching="automatic", vision=False),
        _hosted("deepseek-reasoner", 128_000, 64_000, caching="automatic", vision=False),
    )
}


def shipped_profile(model: str) -> ModelProfile | None:
    """The table's row for a model id, under the id as asked for; None when the table does not have it.

    ``openai/gpt-4o-2024-11-20`` finds ``gpt-4o``: gateways write the vendor in front and makers the date behind.
    """
    bare = model.rsplit("/", 1)[-1].lower()
    found = _SHIPPED.get(bare) or _SHIPPED.get(_DATE.sub("", bare))
    return None if found is None else replace(found, name=model)
