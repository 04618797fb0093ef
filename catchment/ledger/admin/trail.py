"""The rows for an audit, in one view of the ledger: the history with its hashes, the jobs, the rules and the documents."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Select, select

from catchment.ledger.db.database import Reading, from_json
from catchment.ledger.db.schema import chain, contents, documents, jobs, sources, throttles
from catchment.ledger.db.schema import history as events
from catchment.ledger.jobs import history

_AT_ONCE = 1_000


class Trail:
    """The rows of one moment. `source_id` selects those of one source; None those of all. Rows come by number or name."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @property
    def length(self) -> int:
        """Number of rows of the history."""
        return int(self._reading.execute(select(chain.c.length)).scalar_one())

    def history(self, report: Callable[[str], None]) -> Iterator[tuple[list[Any], bytes]]:
        """Yield each row of the history and its hash. Passes a sentence for each inconsistency to `report`."""
        return history.walk(self._reading, report)

    def proof(self, number: int) -> bytes:
        """Return the hash of a row of the history; empty if there is no such row."""
        found: bytes | None = self._reading.execute(select(events.c.hash).where(events.c.id == number)).scalar()
        return found or b""

    def sources(self) -> dict[int, tuple[str, str]]:
        """Return the name and the kind of each source, removed ones too."""
        rows = self._reading.execute(select(sources.c.id, sources.c.name, sources.c.kind).order_by(sources.c.id))
        return {row.id: (row.name, row.kind) for row in rows}

    def jobs(self, source_id: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the jobs."""
        columns = (jobs.c.id, jobs.c.source_id, jobs.c.item_id, jobs.c.state, jobs.c.reason, jobs.c.attempt)
        times = (jobs.c.enqueued_at, jobs.c.finished_at)
        return self._rows(select(*columns, *times).order_by(jobs.c.id), jobs.c.source_id, source_id)

    def throttles(self, scopes: frozenset[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the operator's rules: all, or those of these scopes."""
        columns = (throttles.c.scope, throttles.c.rule, throttles.c.changed_at)
        for row in self._rows(select(*columns).order_by(throttles.c.scope)):
            if scopes is None or row["scope"] in scopes:
                yield row | {"rule": from_json(row["rule"])}

    def artifacts(self, source_id: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the origin of each document: the hashes of its raw content and of its text, and the code that made it."""
        columns = (documents.c.id, documents.c.source_id, documents.c.item_id, contents.c.hash, contents.c.normalizer)
        live = select(*columns, contents.c.text).join_from(documents, contents).where(documents.c.removed_at.is_(None))
        for row in self._rows(live.order_by(documents.c.id), documents.c.source_id, source_id):
            text = hashlib.sha256(row.pop("text").encode("utf-8", "surrogatepass")).hexdigest()
            yield row | {"text": text}

    def _rows(
        self, statement: Select[Any], column: Any = None, source_id: int | None = None
    ) -> Iterator[dict[str, Any]]:
        if source_id is not None:
            statement = statement.where(column == source_id)
        for row in self._reading.execute(statement.execution_options(yield_per=_AT_ONCE)).mappings():
            yield dict(row)
