"""Models for embeddings: what they offer, and how a setting chooses one."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Protocol

from catchment.errors import BadInput, MeaningOff
from catchment.ledger.library.embeddings import DEFAULT_MODEL, OFF

_ENDPOINT = re.compile(r"(ollama|openai):(.+)@(https?://.+)")
_ADDRESS = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?(/.*)?", re.IGNORECASE)
"""Without a user name, a query or a backslash: parsers differ on where a host ends there."""
IS_OFF = "search by meaning: off; switch it on with `catchment model use`"
_LARGEST = 127
LONGEST = 8_000
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
        """Return a vector for each text, as `quantized` returns it, or why there is none; None: not now."""

    def query(self, text: str) -> Sequence[float]:
        """Return the vector of a query, of length 1."""


def load(setting: str) -> Model:
    """Return the model of a setting (see `checked`). Raises MeaningOff if it is off or cannot be used."""
    if setting == OFF:
        raise MeaningOff(IS_OFF)
    try:
        # The setting may come from a backup.
        checked(setting)
    except BadInput as invalid:
        raise MeaningOff(f"search by meaning: {invalid}") from None
    if match := _ENDPOINT.fullmatch(setting):
        from catchment.search.meaning.endpoint import Endpoint

        return Endpoint(setting, *match.groups())
    from catchment.search.meaning.builtin import BuiltIn

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
    match = _ADDRESS.fullmatch(url)
    host = match[1].strip("[]").lower() if match else ""
    try:
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
