"""The choice of a model: checks a setting and loads its model."""

from __future__ import annotations

import re

from catchment.errors import BadInput, MeaningOff
from catchment.ledger import DEFAULT_MODEL, OFF
from catchment.runtime.addresses import is_local
from catchment.search.meaning.meaning_status import IS_OFF
from catchment.search.meaning.models import Model

_ENDPOINT = re.compile(r"(ollama|openai):(.+)@(https?://.+)")


def load(setting: str, threads: int = 1) -> Model:
    """Return the model of a setting (see `checked`). Raises MeaningOff if it is off or cannot be used.

    `threads`: of the built-in model.
    """
    if setting == OFF:
        raise MeaningOff(IS_OFF)
    try:
        # A restored backup may contain an invalid setting.
        checked(setting)
    except BadInput as invalid:
        raise MeaningOff(f"search by meaning: {invalid}") from None
    if match := _ENDPOINT.fullmatch(setting):
        from catchment.search.meaning.endpoint import Endpoint

        return Endpoint(setting, *match.groups())
    from catchment.search.meaning.builtin import BuiltIn

    return BuiltIn(threads)


def checked(setting: str) -> str:
    """Return the setting if it is valid: `use`, `off`, `ollama:MODEL@URL` or `openai:MODEL@URL`. Raises BadInput.

    The text of the library is sent to an endpoint, so only addresses of this machine are valid.
    """
    if setting in (DEFAULT_MODEL, OFF):
        return setting
    match = _ENDPOINT.fullmatch(setting)
    if match is None:
        raise BadInput(f"model: unknown setting {setting!r}; choose use, off, ollama:MODEL@URL or openai:MODEL@URL")
    if "@" in match[3] or "?" in match[3] or not is_local(match[3]):
        raise BadInput("model: the address is not on this machine; use one on 127.0.0.1 or localhost")
    return setting
