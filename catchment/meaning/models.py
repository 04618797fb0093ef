"""Models for embeddings: what they offer, and how a setting chooses one."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from catchment.errors import BadInput, MeaningOff
from catchment.ledger.library.embeddings import DEFAULT_MODEL, OFF

_ENDPOINT = re.compile(r"(ollama|openai):(.+)@(https?://.+)")
IS_OFF = "search by meaning: off; switch it on with `catchment model use`"
_LARGEST = 127
_TEXTS_AT_ONCE = 8
LONGEST = 8_000
"""Characters of a text that a model receives; the rest is cut off."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A text that the model does not embed. `reason` contains no part of the text."""

    reason: str


class Model(Protocol):
    """A model that maps texts to vectors. Not thread-safe. Raises MeaningOff if it cannot be used now."""

    setting: str
    name: str
    """Identifies the model, its version and preprocessing: vectors are comparable only under the same name."""
    dimensions: int

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal]:
        """Return a vector for each text, as `quantized` returns it, or why there is none."""

    def query(self, text: str) -> Sequence[float]:
        """Return the vector of a query, of length 1."""


class InTurns:
    """A model that waits for its turn before each group of texts, so that others have theirs in between.

    `turn`: returns a context that is entered for about a tenth of a second of work.
    """

    def __init__(self, model: Model, turn: Callable[[], AbstractContextManager[object]]) -> None:
        self._model, self._turn = model, turn
        self.setting, self.name, self.dimensions = model.setting, model.name, model.dimensions

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal]:
        """Implement `Model.passages`."""
        vectors: list[bytes | Refusal] = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            with self._turn():
                vectors += self._model.passages(texts[start : start + _TEXTS_AT_ONCE])
        return vectors

    def query(self, text: str) -> Sequence[float]:
        """Implement `Model.query`."""
        with self._turn():
            return self._model.query(text)


def load(setting: str) -> Model:
    """Return the model of a setting (see `checked`). Raises MeaningOff if it is off or cannot be used."""
    if setting == OFF:
        raise MeaningOff(IS_OFF)
    if match := _ENDPOINT.fullmatch(setting):
        from catchment.meaning.endpoint import Endpoint

        return Endpoint(setting, *match.groups())
    from catchment.meaning.builtin import BuiltIn

    return BuiltIn()


def checked(setting: str) -> str:
    """Return the setting if it is valid: `use`, `off`, `ollama:MODEL@URL` or `openai:MODEL@URL`. Raises BadInput.

    The text of the library is sent to an endpoint, so only addresses of this machine are valid.
    """
    if setting in (DEFAULT_MODEL, OFF):
        return setting
    match = _ENDPOINT.fullmatch(setting)
    if match is None:
        raise BadInput(f"model: unknown setting {setting!r}; choose use, off, ollama:MODEL@URL or openai:MODEL@URL")
    if not _is_loopback(match[3]):
        raise BadInput("model: the address is not on this machine; use one on 127.0.0.1 or localhost")
    return setting


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def quantized(vector: Sequence[float]) -> bytes | Refusal:
    """Return a vector as one signed byte per dimension; only its direction is kept."""
    largest = max(map(abs, vector), default=0.0)
    if not math.isfinite(largest) or not all(map(math.isfinite, vector)) or largest == 0.0:
        return Refusal("the model returned no usable vector")
    return array("b", (round(value / largest * _LARGEST) for value in vector)).tobytes()


def clean(text: str) -> str:
    """Return a text as models accept it: without lone surrogates, and not too long."""
    return text[:LONGEST].encode("utf-8", "replace").decode()
