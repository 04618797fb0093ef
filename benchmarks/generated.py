"""A source of any number of small notes that are made when they are read: what is measured is Catchment and not a disk."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate, product
from typing import Any, ClassVar

from catchment.contracts import Known
from catchment.model import Change, Checkpoint, Item, RawContent, Root, Upsert
from catchment.settings import Policy, SourceSettings

_PER_CONTAINER = 1_000
_BEGUN, _DAY = datetime(2016, 1, 1, tzinfo=UTC), timedelta(days=1)
_SYLLABLES = tuple(map("".join, product("bdfgklmnprstvz", "aeo")))
_ENDINGS = ("", "", "", "s", "ed", "ing")
_WORDS = ("river", "valley", "rain", "bridge", "boat", "hour", "keeper", "lamp", "garden", "plan", "letter", "question")


class GeneratedSettings(SourceSettings):
    """How many notes there are; of a dozen words each drawn twenty times, or of as many of `vocabulary` as `length`."""

    notes: int
    vocabulary: int = 0
    length: int = 20

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """As `SourceSettings.located`: the number."""
        return {"notes": location}


class Generated:
    """Notes of about 160 bytes, a thousand to a container, of which each leaves a mark as a folder does."""

    kind: ClassVar[str] = "generated"
    settings: ClassVar[type[SourceSettings]] = GeneratedSettings
    policy: ClassVar[Policy] = Policy()
    fetch_in_parser: ClassVar[bool] = True

    def __init__(self, settings: GeneratedSettings) -> None:
        self._notes = settings.notes
        self._length = settings.length
        self._vocabulary = settings.vocabulary

    def probe(self) -> str:
        """As `Connector.probe`."""
        return f"{self._notes} notes"

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:  # noqa: ARG002 - a version says all
        """As `Connector.changes`."""
        yield Root("generated")
        marks = known.marks()
        for start in range(0, self._notes, _PER_CONTAINER):
            container = f"{start // _PER_CONTAINER:04d}"
            items = [_item(number, container) for number in range(start, min(start + _PER_CONTAINER, self._notes))]
            if marks.get(container) != (mark := f"{len(items)}.{items[-1].version}"):
                yield from map(Upsert, items)
                yield Checkpoint({container: mark})
        yield Checkpoint()

    def fetch(self, item: Item) -> RawContent:
        """As `Connector.fetch`; always the same for the same item."""
        chance = random.Random(item.locator)
        known, weights = _words(self._vocabulary)
        words = " ".join(chance.choices(known, cum_weights=weights, k=self._length))
        text = f"---\ntags: [{chance.choice(_WORDS)}]\n---\n# {item.locator}\n\n{words}. See [[{chance.choice(_WORDS)}]].\n"
        return RawContent(
            text.encode(), name=item.locator.rpartition("/")[2], modified=_BEGUN + _DAY * chance.randrange(3_650)
        )


@cache
def _words(size: int) -> tuple[Sequence[str], Sequence[float] | None]:
    """What notes are made of, and how often by Zipf's law: the word of rank n is n times as rare as the first one."""
    if not size:
        return _WORDS, None
    return vocabulary(size), list(accumulate(1 / n for n in range(1, size + 1)))


def vocabulary(size: int) -> list[str]:
    """Words that mean nothing, the shortest first; some are other forms of another."""
    chance = random.Random(size)
    return [
        "".join(chance.choices(_SYLLABLES, k=2 + n.bit_length() // 6)) + chance.choice(_ENDINGS) for n in range(size)
    ]


def _item(number: int, container: str) -> Item:
    return Item(f"{container}/Note {number:07d}.md", container, "1", identity=str(number), size=160)
