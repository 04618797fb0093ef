"""A connector's view of its records: the marks and items of one source, read on demand."""

from __future__ import annotations

from collections.abc import Mapping, Set

import orjson
from sqlalchemy import Select, select

from catchment.ledger.db.database import Reading, Store, among, as_map, from_json
from catchment.ledger.db.schema import items, marks, sources
from catchment.model import PARTS, KnownItem


def accepted_roots(reading: Reading, source_id: int) -> dict[str, str]:
    """Return the accepted identities of a source's roots. Earlier versions stored the identity of an only root as text."""
    text = reading.execute(select(sources.c.root).where(sources.c.id == source_id)).scalar()
    try:
        roots = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        roots = text
    return roots if isinstance(roots, dict) else {"": str(text)}


class KnownSource:
    """Implements `catchment.contracts.Known` for one source."""

    def __init__(self, store: Store, source_id: int) -> None:
        self._store = store
        self._source_id = source_id
        self._marks: dict[str, str] | None = None

    def marks(self) -> Mapping[str, str]:
        """Return all marks, as of the first call."""
        if self._marks is None:
            with self._store.read() as reading:
                rows = reading.execute(select(marks.c.key, marks.c.value).where(marks.c.source_id == self._source_id))
                self._marks = as_map(rows)
        return self._marks

    def roots(self) -> Mapping[str, str]:
        """Return the accepted identity of each root."""
        with self._store.read() as reading:
            return accepted_roots(reading, self._source_id)

    def within(self, container: str) -> Mapping[str, KnownItem]:
        """Return the present items of one container, by locator."""
        columns = items.c.locator, items.c.version, items.c.identity, items.c.content_hash, items.c.attributes
        with self._store.read() as reading:
            in_container = among(reading, items.c.container, [container])
            statement = select(*columns).where(
                items.c.source_id == self._source_id, in_container, items.c.state == "present"
            )
            return {
                locator: KnownItem(version, identity, content_hash, from_json(attributes))
                for locator, version, identity, content_hash, attributes in reading.execute(statement).all()
            }

    def containers(self) -> frozenset[str]:
        """Return every container with a present item. An item with parts is none: its own job lists them."""
        containers = self._store.execute(self._present().distinct()).scalars()
        return frozenset(container for container in containers if not container.endswith(PARTS))

    def identities(self) -> Set[str]:
        """Return the identities of the items that are present or missing."""
        statement = select(items.c.identity).where(items.c.source_id == self._source_id, items.c.state != "deleted")
        return set(self._store.execute(statement.where(items.c.identity.is_not(None))).scalars())

    def is_empty(self) -> bool:
        """Return whether the source has no present items. Reads at most one row."""
        return self._store.execute(self._present().limit(1)).first() is None

    def _present(self) -> Select[tuple[str]]:
        """Select the containers of the present items."""
        return select(items.c.container).where(items.c.source_id == self._source_id, items.c.state == "present")
