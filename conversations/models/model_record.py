"""What is known of a model beyond the shipped table: an operator's overrides, a learned window, a calibration."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

# A smaller window leaves no room for a conversation, and is rather a figure read wrongly from an error's sentence.
LEAST_WINDOW = 1_024

# A price of up to a million dollars, to a millionth of one.
PRICE: dict[str, Any] = {
    "max_digits": 12,
    "decimal_places": 6,
    "null": True,
    "blank": True,
    "validators": [MinValueValidator(0)],
}


class ModelRecord(models.Model):
    """One row a model id. Null means that the next source decides (see ``agentx.llm.profiles``).

    ``calibration``: reported ÷ estimated prompt tokens, smoothed over ``calibration_calls`` calls.
    """

    class PromptCaching(models.TextChoices):
        NONE = "none"
        AUTOMATIC = "automatic"
        EXPLICIT = "explicit"

    model_id = models.CharField(max_length=200, unique=True)
    max_input_tokens = models.IntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(LEAST_WINDOW)],
        help_text="The window in tokens. Goes before what the provider says and what was learned.",
    )
    max_output_tokens = models.IntegerField(
        null=True, blank=True, validators=[MinValueValidator(16)], help_text="The longest answer in tokens."
    )
    prompt_caching = models.CharField(
        max_length=16,
        choices=PromptCaching.choices,
        null=True,
        blank=True,
        help_text="Explicit: messages up to which the provider is to cache are marked.",
    )
    strict_roles = models.BooleanField(
        null=True, blank=True, help_text="The template refuses two messages of one role in a row."
    )
    vision = models.BooleanField(null=True, blank=True, help_text="Takes images.")
    tools = models.BooleanField(null=True, blank=True, help_text="Calls tools.")
    image_tokens = models.IntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0), MaxValueValidator(100_000)],
        help_text="What one image costs.",
    )
    input_price = models.DecimalField(
        **PRICE, help_text="Dollars for a million prompt tokens. Goes before the published price."
    )
    cached_price = models.DecimalField(
        **PRICE, help_text="The same for those read from the provider's cache. Empty: as the others."
    )
    output_price = models.DecimalField(
        **PRICE, help_text="The same for tokens of the answer, reasoning included."
    )
    learned_window = models.IntegerField(null=True, blank=True)
    learned_at = models.DateTimeField(null=True, blank=True)
    calibration = models.FloatField(default=1.0)
    calibration_calls = models.IntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.model_id
