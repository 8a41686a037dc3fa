"""What a call costs by price and tokens, where its provider does not say.

Published prices are those of the package ``genai-prices``, which carries them by provider and keeps them without a network.
They are looked up by the endpoint's address: the same model id elsewhere may cost something else, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import structlog

from agentx.llm.messages import UsageReport

log = structlog.get_logger(__name__)

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Prices:
    """An operator's prices: dollars for a million tokens. ``cached``: None where they cost what the others do."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None


def estimate_cost(*, model: str, base_url: str, usage: UsageReport, own: Prices | None) -> Decimal | None:
    """Dollars for a call, or None: where tokens are not known, no price is, or the endpoint is none that publishes prices.

    ``own``: goes before what is published. Reasoning tokens are part of the output.
    """
    if usage.prompt_tokens is None or usage.output_tokens is None:
        return None
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    if own is not None:
        fresh = usage.prompt_tokens - cached
        dear = own.input if own.cached is None else own.cached
        return (fresh * own.input + cached * dear + usage.output_tokens * own.output) / _MILLION
    return _published(model, base_url, usage.prompt_tokens, cached, usage.output_tokens)


def _published(model: str, base_url: str, prompt: int, cached: int, output: int) -> Decimal | None:
    # Imported late: the table takes 12 MB and a sixth of a second, which a process without calls need not have.
    from genai_prices import Usage, calc_price

    tokens = Usage(input_tokens=prompt, cache_read_tokens=cached, output_tokens=output)
    try:
        return calc_price(tokens, model_ref=model, provider_api_url=base_url).total_price
    except LookupError:
        return None
    except Exception as error:  # a price that cannot be made out must not keep an answer from being stored
        log.warning("price_unreadable", model=model, error=type(error).__name__)
        return None
