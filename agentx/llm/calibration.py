"""How far a model's own token counts are from our estimates, learned from what it reports.

One ratio a model would not do: a tokenizer that was made for English may need 1.1 times our estimate for English and three
times for Chinese. So there are two ratios, one a model for conversations that have said nothing yet, and one a
conversation, which follows its own mixture of prose, code and scripts within a few calls.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """``least``, ``most``: bounds of a ratio. ``memory``: calls after which an old one has lost most of its weight."""

    least: float
    most: float
    memory: int


# Of a whole model, from many conversations: slow, and within what tokenizers differ by on usual text.
MODEL = Scope(least=0.9, most=2.0, memory=20)
# Of one conversation: fast, since its content changes, and wider, since all of it may be in one script. A small model
# made for English was measured at more than twice our estimate on Chinese, and a large multilingual one at half of it.
CONVERSATION = Scope(least=0.5, most=4.0, memory=3)

# In shorter prompts the template's own tokens weigh more than what is learned from.
LEAST_TOKENS = 200
# Beyond this a report does not concern the request that was estimated: another unit, or a figure for something else.
_MOST_FACTOR = 10.0


def update_ratio(
    *, ratio: float, calls: int, reported: int | None, estimated: int, scope: Scope
) -> tuple[float, int]:
    """The new (reported ÷ estimated, calls) after one call; unchanged when its figures mean nothing.

    ``reported``: prompt tokens of the provider, cached ones included. ``estimated``: our count of the same request
    *before* any ratio was applied to it. The first calls count alike, so that ten of them are enough; later ones count
    for one in ``scope.memory``. Not used when either figure is under 200 tokens or they are more than tenfold apart.
    """
    if reported is None or not is_meaningful(reported=reported, estimated=estimated):
        return ratio, calls
    seen = _clamp(reported / estimated, scope)
    weight = 1 / min(calls + 1, scope.memory)
    return _clamp(ratio + (seen - ratio) * weight, scope), calls + 1


def is_meaningful(*, reported: int, estimated: int) -> bool:
    """Whether there is anything to learn from a call: at least 200 tokens, and less than tenfold apart."""
    if min(reported, estimated) < LEAST_TOKENS:
        return False
    return 1 / _MOST_FACTOR <= reported / estimated <= _MOST_FACTOR


def choose_ratio(
    *, model: float, model_calls: int, conversation: float | None, conversation_calls: int
) -> float:
    """What to multiply estimates by: the conversation's own ratio once there is one, else the model's, else 1."""
    if conversation is not None and conversation_calls > 0:
        return conversation
    return model if model_calls > 0 else 1.0


def _clamp(ratio: float, scope: Scope) -> float:
    return min(max(ratio, scope.least), scope.most)
