"""What every JSON body on the wire has in common: immutability, strictness, and the text rules of the database."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def require_storable_text(text: str) -> str:
    """Refuse what PostgreSQL cannot store: NUL characters and lone surrogates. Raises ``ValueError``."""
    if _UNSTORABLE.search(text):
        raise ValueError("contains NUL characters or broken Unicode, which cannot be stored")
    return text


def require_visible_text(text: str) -> str:
    """Refuse text with nothing to read in it. Raises ``ValueError``."""
    if not text.strip():
        raise ValueError("must not be blank")
    return text


StorableText = Annotated[str, AfterValidator(require_storable_text)]
VisibleText = Annotated[StorableText, AfterValidator(require_visible_text)]


class Wire(BaseModel):
    """Base of every shape on the wire: immutable, and strict about unknown fields.

    Answers are sent whole, so their schema requires fields that have a default, too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)
