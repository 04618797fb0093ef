"""Finding a source by its name, and an item by what a person calls it.

That is its locator, the end of that, or the name of its file without the ending.

How accents are written does not matter: a disk keeps "é" as one letter or as a letter and a mark, and nobody sees which.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from difflib import get_close_matches
from typing import NamedTuple

from sqlalchemy import ColumnElement, or_, select

from catchment.errors import NotFound
from catchment.ledger.db.database import AnyRow, Reading
from catchment.ledger.db.schema import sources

_FOREIGN = re.compile(r"[^\x00-\x7f]+")


def composed(text: str) -> str:
    """The text with each accent and its letter as one character, where there is one."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


class Fit(NamedTuple):
    """How well a locator is called by a name; the smallest fits best."""

    place: int
    spelled_otherwise: bool
    other_case: bool

    @property
    def is_whole(self) -> bool:
        """Whether the name is all of the locator."""
        return self.place == 0


def fit(locator: str, wanted: str) -> Fit | None:
    """How well a locator is called by the wanted name; None if it is not."""
    said, asked = composed(locator), composed(wanted)
    folded, name = said.casefold(), asked.casefold()
    if folded == name:
        place = 0
    elif folded.endswith(f"/{name}"):
        place = 1
    elif f"/{name}." in f"/{folded}":
        place = 2
    else:
        return None
    return Fit(place, wanted not in locator, asked not in said)


def may_be_called(reading: Reading, locator: ColumnElement[str], wanted: str) -> ColumnElement[bool]:
    """A condition that holds for every locator that fits, and for few others."""
    shape = _shape(wanted)
    like = _like(reading, locator)
    return like(f"%{shape}%") & or_(like(shape), like(f"%/{shape}"), like(f"{shape}.%"), like(f"%/{shape}.%"))


def may_be(reading: Reading, column: ColumnElement[str], wanted: str) -> ColumnElement[bool]:
    """A condition that holds for every text that looks like the wanted one, and for few others."""
    return _like(reading, column)(_shape(wanted))


def _like(reading: Reading, column: ColumnElement[str]) -> Callable[[str], ColumnElement[bool]]:
    """The operator that overlooks the case of ASCII letters on both databases."""
    compare = column.like if reading.sqlite else column.ilike
    return lambda pattern: compare(pattern, escape="\\")


def _shape(wanted: str) -> str:
    """A pattern of LIKE with a blank for all that may be written in two ways."""
    escaped = composed(wanted).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return _FOREIGN.sub("%", escaped)


def find_source(reading: Reading, name: str) -> AnyRow:
    """The row of a source by name, unless it was removed. Raises NotFound."""
    row = reading.execute(select(sources).where(sources.c.name == name, sources.c.state != "removed")).first()
    if row is not None:
        return row
    names = reading.execute(select(sources.c.name).where(sources.c.state != "removed")).scalars().all()
    close = get_close_matches(name, names, n=3)
    remedy = f"did you mean {' or '.join(close)}?" if close else "`catchment sources list` shows those there are"
    raise NotFound(f"There is no source {name}; {remedy}")
