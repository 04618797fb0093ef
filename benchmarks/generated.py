"""A source of any number of small notes that are made when they are read: what is measured is Catchment and not a disk."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from catchment.contracts import Known
from catchment.model import Change, Checkpoint, Item, RawContent, Root, Upsert
from catchment.settings import Policy, SourceSettings

_PER_CONTAINER = 1_000
_WORDS = ("river", "valley", "rain", "bridge", "boat", "hour", "keeper", "lamp", "garden", "plan", "letter", "question")


class GeneratedSettings(SourceSettings):
    """How many notes there are."""

    notes: int

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
        words = " ".join(chance.choices(_WORDS, k=20))
        text = f"---\ntags: [{chance.choice(_WORDS)}]\n---\n# {item.locator}\n\n{words}. See [[{chance.choice(_WORDS)}]].\n"
        return RawContent(text.encode(), name=item.locator.rpartition("/")[2])


def _item(number: int, container: str) -> Item:
    return Item(f"{container}/Note {number:07d}.md", container, "1", identity=str(number), size=160)
