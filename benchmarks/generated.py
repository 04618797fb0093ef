"""A source of any number of small notes, generated when they are read, to measure Catchment without a disk."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate, product
from typing import Any, ClassVar

from catchment.contracts import Known, Manifest
from catchment.model import Change, Checkpoint, Item, RawContent, Root, Upsert
from catchment.settings import Policy, SourceSettings

_PER_CONTAINER = 1_000
_BEGUN, _DAY = datetime(2016, 1, 1, tzinfo=UTC), timedelta(days=1)
_SYLLABLES = tuple(map("".join, product("bdfgklmnprstvz", "aeo")))
_ENDINGS = ("", "", "", "s", "ed", "ing")
_WORDS = ("river", "valley", "rain", "bridge", "boat", "hour", "keeper", "lamp", "garden", "plan", "letter", "question")


class GeneratedSettings(SourceSettings):
    """`notes` notes of `length` words each.

    `vocabulary`: the number of different words; 0: a dozen fixed words.
    """

    notes: int
    vocabulary: int = 0
    length: int = 20

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for a number of notes as the location."""
        return {"notes": location}


class Generated:
    """Notes of about 160 bytes, a thousand per container. Each container has a cursor, as a folder does."""

    kind: ClassVar[str] = "generated"
    manifest: ClassVar[Manifest] = Manifest("Generated items", "generated items")
    settings: ClassVar[type[SourceSettings]] = GeneratedSettings
    policy: ClassVar[Policy] = Policy()
    fetch_in_parser: ClassVar[bool] = True

    def __init__(self, settings: GeneratedSettings) -> None:
        self._notes = settings.notes
        self._length = settings.length
        self._vocabulary = settings.vocabulary

    def probe(self) -> str:
        """Do nothing: the source is always available."""
        return f"{self._notes} notes"

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:  # noqa: ARG002 - versions are complete
        """Yield the changes of each container whose cursor is not known."""
        yield Root({"": "generated"})
        marks = known.marks()
        for start in range(0, self._notes, _PER_CONTAINER):
            container = f"{start // _PER_CONTAINER:04d}"
            items = [_item(number, container) for number in range(start, min(start + _PER_CONTAINER, self._notes))]
            if marks.get(container) != (mark := f"{len(items)}.{items[-1].version}"):
                yield from map(Upsert, items)
                yield Checkpoint({container: mark})
        yield Checkpoint()

    def fetch(self, item: Item) -> RawContent:
        """Return the content of an item, the same at every call."""
        chance = random.Random(item.locator)
        known, weights = _words(self._vocabulary)
        words = " ".join(chance.choices(known, cum_weights=weights, k=self._length))
        text = f"---\ntags: [{chance.choice(_WORDS)}]\n---\n# {item.locator}\n\n{words}. See [[{chance.choice(_WORDS)}]].\n"
        return RawContent(
            text.encode(), name=item.locator.rpartition("/")[2], modified=_BEGUN + _DAY * chance.randrange(3_650)
        )


@cache
def _words(size: int) -> tuple[Sequence[str], Sequence[float] | None]:
    """Return the words, and their weights by Zipf's law: the word of rank n is n times rarer than the first."""
    if not size:
        return _WORDS, None
    return vocabulary(size), list(accumulate(1 / n for n in range(1, size + 1)))


def vocabulary(size: int) -> list[str]:
    """Return meaningless words, shortest first. Some are inflections of others."""
    chance = random.Random(size)
    return [
        "".join(chance.choices(_SYLLABLES, k=2 + n.bit_length() // 6)) + chance.choice(_ENDINGS) for n in range(size)
    ]


def _item(number: int, container: str) -> Item:
    return Item(f"{container}/Note {number:07d}.md", container, "1", identity=str(number), size=160)
