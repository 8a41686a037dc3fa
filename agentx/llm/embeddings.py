"""Vectors for texts without a model server: static word vectors averaged, from a package that carries its weights.

They find what is said in other words, which no list of words can. The two files of the wordllama package are read here
directly: importing the package itself takes 0.4 s more and 57 MB more, a network library, and it sets up logging.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import structlog

log = structlog.get_logger(__name__)

# Longer texts are embedded by their beginning: an average over thousands of words says little about any of them.
LONGEST_TEXT = 4_000

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class Embedder(Protocol):
    """Turns texts into vectors that lie close together when the texts are about the same."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length one for each text; all zeros for a text without words."""
        ...


class StaticEmbedder:
    """The average of the word vectors in ``folder``, the wordllama package's. Loaded at the first use: 0.5 s, 58 MB
    with numpy."""

    name = "wordllama-l2-supercat-256"
    dimensions = 256

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loading = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Measured: 0.06 ms for a question, 0.3 ms for a message of 250 characters' length on one core."""
        import numpy

        tokenizer, weights = self._load()
        vectors: list[list[float]] = []
        for text in texts:
            # White space alone would be embedded as a word of its own.
            words = text[:LONGEST_TEXT] if text.strip() else ""
            ids = tokenizer.encode(words, add_special_tokens=False).ids
            total = weights[ids].astype(numpy.float32).sum(axis=0)
            length = float(numpy.linalg.norm(total))
            vectors.append((total / length if length else total).tolist())
        return vectors

    def _load(self) -> tuple[Any, Any]:
        with self._loading:
            if self._loaded is None:
                from safetensors import safe_open
                from tokenizers import Tokenizer

                tokenizer: Any = Tokenizer.from_file(str(self._folder / _TOKENIZER))
                tokenizer.no_truncation()
                tokenizer.no_padding()
                opened: Any = safe_open(self._folder / _WEIGHTS, framework="np")
                with opened as file:
                    self._loaded = (tokenizer, file.get_tensor("embedding.weight"))
            return self._loaded


@cache
def default_embedder() -> Embedder | None:
    """The embedder of this installation, or None when its package or one of its files is missing (logged once)."""
    found = importlib.util.find_spec("wordllama")
    folder = Path(found.origin).parent if found and found.origin else None
    if folder is None or not all((folder / name).is_file() for name in (_WEIGHTS, _TOKENIZER)):
        log.warning("embedder_missing", effect="search goes by words alone")
        return None
    return StaticEmbedder(folder)
