"""The interface of models that map texts to vectors. `choice` loads one."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_LARGEST = 127
_LONGEST = 8_000
"""Characters of a text that a model receives; the rest is cut off."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A text that the model never embeds. `reason` contains no part of the text."""

    reason: str


class Model(Protocol):
    """A model that maps texts to vectors. Not thread-safe. Raises MeaningOff if it cannot be used now."""

    setting: str
    name: str
    """Identifies the model, its version and preprocessing: vectors are comparable only under the same name."""
    dimensions: int

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal | None]:
        """Return for each text a vector as from `quantized`, a Refusal, or None if the model fails on it now."""

    def query(self, text: str) -> Sequence[float]:
        """Return the vector of a query, of length 1."""


def quantized(vector: Sequence[float]) -> bytes | Refusal:
    """Return a vector as one signed byte per dimension; only its direction is kept."""
    largest = max(map(abs, vector), default=0.0)
    if not math.isfinite(largest) or not all(map(math.isfinite, vector)) or largest == 0.0:
        return Refusal("the model returned no usable vector")
    return array("b", (round(value / largest * _LARGEST) for value in vector)).tobytes()


def clean(text: str) -> str:
    """Return a text as models accept it: without lone surrogates, and not too long."""
    return text[:_LONGEST].encode("utf-8", "replace").decode()
