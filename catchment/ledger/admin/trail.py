"""The rows for an audit, in one view of the ledger: the history with its hashes, the jobs, the rules and the documents."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Select, Table, select

from catchment.ledger.db.database import Reading, from_json
from catchment.ledger.db.lookup import find_source
from catchment.ledger.db.schema import chain, contents, documents, jobs, sources, throttles
from catchment.ledger.db.schema import history as events
from catchment.ledger.jobs.history import walk


class Trail:
    """The rows of one moment. `source_id` selects the rows of one source; None selects all. Ordered by number or name."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @property
    def length(self) -> int:
        """Number of rows of the history."""
        return int(self._reading.execute(select(chain.c.length)).scalar_one())

    def history(self, report: Callable[[str], None]) -> Iterator[tuple[Sequence[tuple[Any, ...]], Sequence[bytes]]]:
        """Yield the rows of the history and their hashes, in parts. Passes a sentence for each inconsistency to `report`."""
        return walk(self._reading, report)

    def proof(self, number: int) -> bytes:
        """Return the hash of a row of the history; empty if there is no such row."""
        stored: bytes | None = self._reading.execute(select(events.c.hash).where(events.c.id == number)).scalar()
        return stored or b""

    def sources(self) -> dict[int, tuple[str, str]]:
        """Return the name and the kind of each source, removed ones too."""
        rows = self._reading.execute(select(sources.c.id, sources.c.name, sources.c.kind).order_by(sources.c.id))
        return {row.id: (row.name, row.kind) for row in rows}

    def source_id(self, name: str) -> int:
        """Return the number of a source, also if it was removed. Raises NotFound."""
        return int(find_source(self._reading, name, also_removed=True).id)

    def jobs(self, source_id: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the jobs."""
        columns = (jobs.c.id, jobs.c.source_id, jobs.c.item_id, jobs.c.state, jobs.c.reason, jobs.c.attempt)
        times = (jobs.c.enqueued_at, jobs.c.finished_at)
        return self._rows(select(*columns, *times), jobs, source_id)

    def job_states(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the state of each job."""
        for part in self._reading.in_parts(select(jobs.c.id, jobs.c.state), jobs.c.id):
            yield from part

    def throttles(self, scopes: frozenset[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the operator's rules: all, or those of these scopes."""
        columns = (throttles.c.scope, throttles.c.rule, throttles.c.changed_at)
        for row in self._reading.execute(select(*columns).order_by(throttles.c.scope)).mappings():
            if scopes is None or row["scope"] in scopes:
                yield {**row, "rule": from_json(row["rule"])}

    def artifacts(self, source_id: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the origin of each document: the hashes of its raw content and of its text, and the code that made it."""
        columns = (documents.c.id, documents.c.source_id, documents.c.item_id, contents.c.hash, contents.c.normalizer)
        live = select(*columns, contents.c.text).join_from(documents, contents).where(documents.c.removed_at.is_(None))
        for row in self._rows(live, documents, source_id):
            text = hashlib.sha256(row.pop("text").encode("utf-8", "surrogatepass")).hexdigest()
            yield row | {"text": text}

    def _rows(self, statement: Select[Any], table: Table, source_id: int | None) -> Iterator[dict[str, Any]]:
        if source_id is not None:
            statement = statement.where(table.c.source_id == source_id)
        names = [str(column.name) for column in statement.selected_columns]
        for part in self._reading.in_parts(statement, table.c.id):
            for row in part:
                yield dict(zip(names, row, strict=True))
