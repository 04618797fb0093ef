"""What a connector is told of its own past: the marks and the items of one source, read when asked for."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Select, select

from catchment.ledger.db.database import Store, as_map
from catchment.ledger.db.schema import items, marks
from catchment.model import KnownItem


class KnownSource:
    """The `Known` of one source (see `catchment.contracts`)."""

    def __init__(self, store: Store, source_id: int) -> None:
        self._store = store
        self._source_id = source_id
        self._marks: dict[str, str] | None = None

    def marks(self) -> Mapping[str, str]:
        """Every mark, as it was when first asked for."""
        if self._marks is None:
            with self._store.read() as reading:
                rows = reading.execute(select(marks.c.key, marks.c.value).where(marks.c.source_id == self._source_id))
                self._marks = as_map(rows)
        return self._marks

    def within(self, container: str) -> Mapping[str, KnownItem]:
        """The present items of one container, by locator."""
        columns = items.c.locator, items.c.version, items.c.identity, items.c.content_hash
        statement = select(*columns).where(
            items.c.source_id == self._source_id, items.c.container == container, items.c.state == "present"
        )
        with self._store.read() as reading:
            return {
                locator: KnownItem(version, identity, content_hash)
                for locator, version, identity, content_hash in reading.execute(statement).all()
            }

    def containers(self) -> frozenset[str]:
        """Every container with a present item."""
        with self._store.read() as reading:
            return frozenset(reading.execute(self._present().distinct()).scalars())

    def is_empty(self) -> bool:
        """Whether no item is present; reads one at most."""
        with self._store.read() as reading:
            return reading.execute(self._present().limit(1)).first() is None

    def _present(self) -> Select[tuple[str]]:
        """The container of every present item."""
        return select(items.c.container).where(items.c.source_id == self._source_id, items.c.state == "present")
