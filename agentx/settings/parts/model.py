"""The model endpoint and the budget of a prompt."""

from django.core.exceptions import ImproperlyConfigured

from agentx.llm.routes import BadRoute, ModelRoute, read_routes
from agentx.settings.env import read

LLM_BASE_URL = read("LLM_BASE_URL") or "http://127.0.0.1:8001/v1"
LLM_API_KEY = read("LLM_API_KEY")
LLM_MODEL = read("LLM_MODEL")
LLM_FALLBACKS = read("LLM_FALLBACKS")
LLM_FALLBACK_ENABLED = read("LLM_FALLBACK_ENABLED")
LLM_ENDPOINT_KEYS = read("LLM_ENDPOINT_KEYS")
LLM_ROLES = {
    "fast_utility": read("FAST_UTILITY_MODEL"),
    "summarizer": read("SUMMARIZER_MODEL"),
    "deep_reasoning": read("DEEP_REASONING_MODEL"),
}
TITLES_BY_MODEL = read("TITLES_BY_MODEL")
LLM_FAST_STREAM = read("LLM_FAST_STREAM")
LLM_CONNECT_TIMEOUT_SECONDS = read("LLM_CONNECT_TIMEOUT_SECONDS")
CONTEXT_WINDOW_TOKENS = read("CONTEXT_WINDOW_TOKENS")
PROMPT_BUDGET_TOKENS = read("PROMPT_BUDGET_TOKENS")
CONTEXT_MAX_INPUT_TOKENS = read("CONTEXT_MAX_INPUT_TOKENS")
RESPONSE_RESERVE_TOKENS = read("RESPONSE_RESERVE_TOKENS")
SAFETY_RESERVE_TOKENS = read("SAFETY_RESERVE_TOKENS")
CONTEXT_VERBATIM_RATIO = read("CONTEXT_VERBATIM_RATIO")
CONTEXT_LOW_WATERMARK = read("CONTEXT_LOW_WATERMARK")
CONTEXT_RECALL_MAX_TOKENS = read("CONTEXT_RECALL_MAX_TOKENS")
CONTEXT_RECALL_SHARE = read("CONTEXT_RECALL_SHARE")
CONTEXT_LEDGER_TOKENS = read("CONTEXT_LEDGER_TOKENS")
DIGEST_MAX_TOKENS = read("DIGEST_MAX_TOKENS")
MODEL_STALL_SECONDS = read("MODEL_STALL_SECONDS")
SLOW_MODEL_FIRST_PING_SECONDS = read("SLOW_MODEL_FIRST_PING_SECONDS")
SLOW_MODEL_PING_INTERVAL_SECONDS = read("SLOW_MODEL_PING_INTERVAL_SECONDS")
RATE_LIMIT_WAIT_SCHEDULE = [float(seconds) for seconds in read("RATE_LIMIT_WAIT_SCHEDULE")]

try:
    read_routes(
        primary=ModelRoute(model=LLM_MODEL, base_url=LLM_BASE_URL),
        fallbacks=LLM_FALLBACKS,
        roles=LLM_ROLES,
        keys=LLM_ENDPOINT_KEYS,
    )
except BadRoute as error:
    raise ImproperlyConfigured(
        f"LLM_FALLBACKS, LLM_ENDPOINT_KEYS or a role's model is wrong: {error}"
    ) from None
