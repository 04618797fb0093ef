"""Readers of other packages, by entry points `catchment.readers`. Of several that bid for a file, the highest score decides."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from catchment.errors import CatchmentError, ParseError
from catchment.runtime.installation import READERS, extensions

if TYPE_CHECKING:
    from catchment.contracts import FileReader

_OURS = 1.0
"""The bid of Catchment for a file of a type that it reads."""


def versions() -> str:
    """Return a value that differs for other readers, or other versions of them; "" if there are none."""
    names = [f"{name} {each.package} {each.version}" for name, each in extensions(READERS).items()]
    return f"-{hashlib.sha256(repr(names).encode()).hexdigest()[:8]}" if names else ""


def reader_for(data: bytes, name: str, *, is_ours: bool) -> FileReader | None:
    """Return the reader of a package that bids most for a file; None if none bids, or Catchment reads it and none bids more.

    Raises ParseError if nobody reads it, and a reader could not say whether it can.
    """
    best, chosen, problem = _OURS if is_ours else 0.0, None, ""
    for reader in _readers():
        try:
            if (bid := reader.score(data, name)) > best:
                best, chosen = bid, reader
        except Exception as error:  # noqa: BLE001 - a defect of one reader must not stop the others
            problem = (
                f"the reader {type(reader).__name__} failed ({type(error).__name__}); upgrade or uninstall its package"
            )
    if problem and chosen is None and not is_ours:
        raise ParseError(problem)
    return chosen


@cache
def _readers() -> tuple[FileReader, ...]:
    readers = []
    for extension in extensions(READERS).values():
        with suppress(CatchmentError):  # `connectors.problems` reports it
            readers.append(extension.load())
    return tuple(readers)
