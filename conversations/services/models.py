"""What experience teaches about a model: the window an overflow reveals, and how far estimates are off."""

from __future__ import annotations

import structlog
from django.db import transaction
from django.db.models.functions import Now

from agentx.llm.calibration import CONVERSATION, MODEL, is_meaningful, update_ratio
from conversations.models import Conversation, ModelRecord
from conversations.models.model_record import LEAST_WINDOW
from conversations.selectors.model_profiles import profile_read

log = structlog.get_logger(__name__)


def window_learn(*, model: str, window: int | None, reported_window: int | None = None) -> bool:
    """Remember the window that a provider named when it refused a request; whether it was news.

    ``window``: tokens, None when the provider named none. A window only ever shrinks by this: a figure that is not
    smaller than what is known already is ignored, and so is one under 1,024, which was not a window at all. An
    operator's override goes on deciding, so a larger one is warned of.
    """
    if window is None or window < LEAST_WINDOW:
        return False
    with transaction.atomic():
        row = _record_lock(model)
        known = profile_read(model=model, reported_window=reported_window)
        if window >= known.max_input_tokens or (row.learned_window and window >= row.learned_window):
            return False
        row.learned_window = window
        row.learned_at = Now()
        row.save(update_fields=["learned_window", "learned_at", "updated_at"])
    log.warning(
        "window_learned",
        model=model,
        window=window,
        before=known.max_input_tokens,
        source=known.source,
        overridden=known.source == "override",
    )
    return True


def window_forget(*, model: str) -> bool:
    """Forget a learned window, as after the provider has enlarged it; whether there was one."""
    forgotten = ModelRecord.objects.filter(model_id=model, learned_window__isnull=False).update(
        learned_window=None, learned_at=None, updated_at=Now()
    )
    if forgotten:
        log.info("window_forgotten", model=model)
    return bool(forgotten)


# The columns of a conversation that :func:`calibration_note` changes.
CALIBRATION = ("calibration", "calibration_calls", "calibration_model")


def calibration_note(*, conversation: Conversation, model: str, reported: int | None, estimated: int) -> bool:
    """Learn from one call: the conversation's ratio and the model's. Once a turn; whether there was something to learn.

    ``reported``: the provider's prompt tokens, cached ones included. ``estimated``: our count of the same request
    before any ratio was applied. Figures that mean nothing cost no query. The caller has locked ``conversation``, whose
    columns it saves itself; the model's row, which every turn on it shares, is locked here until the transaction ends,
    so call it last.
    """
    if reported is None or not is_meaningful(reported=reported, estimated=estimated):
        return False
    _conversation_note(conversation, model=model, reported=reported, estimated=estimated)
    row = _record_lock(model)
    ratio, calls = update_ratio(
        ratio=row.calibration,
        calls=row.calibration_calls,
        reported=reported,
        estimated=estimated,
        scope=MODEL,
    )
    ModelRecord.objects.filter(pk=row.pk).update(calibration=ratio, calibration_calls=calls, updated_at=Now())
    return True


def _conversation_note(conversation: Conversation, *, model: str, reported: int, estimated: int) -> None:
    """A ratio belongs to the model that reported it, so another model begins anew."""
    same = conversation.calibration_model == model and conversation.calibration is not None
    conversation.calibration, conversation.calibration_calls = update_ratio(
        ratio=conversation.calibration if same and conversation.calibration is not None else 1.0,
        calls=conversation.calibration_calls if same else 0,
        reported=reported,
        estimated=estimated,
        scope=CONVERSATION,
    )
    conversation.calibration_model = model


def _record_lock(model: str) -> ModelRecord:
    """The locked row of a model id, made when there is none. Needs a transaction."""
    row = ModelRecord.objects.select_for_update().filter(model_id=model).first()
    if row is None:
        ModelRecord.objects.bulk_create([ModelRecord(model_id=model)], ignore_conflicts=True)
        row = ModelRecord.objects.select_for_update().get(model_id=model)
    return row
