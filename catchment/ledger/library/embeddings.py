"""Embeddings of the chunks, by space: what one version of a model produces. Vectors of different spaces never mix.

A chunk is embedded in parts, because a vector of a long text says little. The parts of a chunk are stored in one transaction.
A part without a vector is one that needs none (a quotation, an empty text) or that the model refused, with its reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import astuple, dataclass

from sqlalchemy import ColumnElement, delete, func, select, update

from catchment.ledger.db.database import Reading, Store, Writing, among
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.schema import chunks, contents, counters, search_model, spaces
from catchment.ledger.db.schema import embeddings as table

DEFAULT_MODEL = "use"
OFF = "off"
FEW = 200
"""As many passages are embedded by the process that searches, within a second. More are left to the flow `embed`."""
_DELETED = "embeddings_deleted"
_ROWS_AT_ONCE = 4_000


@dataclass(frozen=True, slots=True)
class Space:
    """What one version of a model produces. `setting` names the model as `Embeddings.setting` does."""

    id: int
    name: str
    setting: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk to be embedded."""

    content_id: int
    chunk_id: int
    title: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Embedding:
    """A part of a chunk with the digest of its text. `vector`: one signed byte per dimension."""

    content_id: int
    chunk_id: int
    part: int
    digest: bytes
    vector: bytes | None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingCounts:
    """Numbers of chunks: embedded, and in the library; and of parts that the model refused."""

    done: int
    total: int
    refused: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """The highest ID of an embedding, and how many were ever deleted. Vectors in memory are current if both are unchanged."""

    last: int
    deleted: int


class Embeddings:
    """The embeddings of one library, and which model makes them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def setting(self) -> str:
        """The wanted model: `use`, `off`, or the kind, name and address of an endpoint."""
        with self._store.read() as reading:
            return str(reading.execute(select(search_model.c.setting)).scalar_one())

    @setting.setter
    def setting(self, value: str) -> None:
        with self._store.write() as writing:
            writing.execute(update(search_model).values(setting=value))

    def searched(self) -> Space | None:
        """Return the space that searches use. After a change of the model it is the old one until the new one is complete."""
        with self._store.read() as reading:
            return _space(reading, spaces.c.id.in_(select(search_model.c.space_id)))

    def wanted(self) -> Space | None:
        """Return the latest space of the wanted model; None before its first use."""
        with self._store.read() as reading:
            with_setting = spaces.join(search_model, search_model.c.setting == spaces.c.setting)
            latest = select(func.max(spaces.c.id)).select_from(with_setting).scalar_subquery()
            return _space(reading, spaces.c.id == latest)

    def space(self, name: str, setting: str, dimensions: int) -> Space:
        """Return the space with this name, created if new. The first space of a library is searched at once."""
        with self._store.write() as writing:
            found = _space(writing, spaces.c.name == name)
            if found is None:
                number = writing.ids("spaces")[0]
                writing.insert(spaces, [(number, name, setting, dimensions)])
                found = Space(number, name, setting, dimensions)
            is_first = search_model.c.space_id.is_(None)
            writing.execute(update(search_model).where(is_first).values(space_id=found.id))
        return found

    def missing(self, space: Space, after: int, limit: int) -> list[Passage]:
        """Return the next chunks without embeddings, by ID, from `after` on (exclusive)."""
        is_done = select(table.c.id).where(table.c.chunk_id == chunks.c.id, table.c.space_id == space.id).exists()
        columns = chunks.c.id, chunks.c.content_id, chunks.c.start, chunks.c.stop, chunks.c.heading
        wanted = select(*columns).where(chunks.c.id > after, ~is_done).order_by(chunks.c.id).limit(limit)
        with self._store.read() as reading:
            rows = reading.execute(wanted).all()
            texts = select(contents.c.id, contents.c.title, contents.c.text)
            owners = reading.execute(texts.where(among(reading, contents.c.id, {row.content_id for row in rows})))
            # Sliced here: the database scans a text from its start for each chunk.
            owner = {content.id: content for content in owners}
        return [
            Passage(
                row.content_id,
                row.id,
                owner[row.content_id].title or "",
                row.heading,
                owner[row.content_id].text[row.start : row.stop],
            )
            for row in rows
        ]

    def last_passage(self) -> int:
        """Return the highest ID of a chunk; 0 if there is none."""
        with self._store.read() as reading:
            return reading.execute(select(func.max(chunks.c.id))).scalar() or 0

    def needs_run(self) -> bool:
        """Return whether the flow `embed` has to make embeddings: more than `FEW` are missing, or the model is new."""
        if self.setting == OFF:
            return False
        wanted, searched = self.wanted(), self.searched()
        if searched is None or wanted is None or wanted.id != searched.id:
            return True
        last = select(func.max(table.c.chunk_id)).where(table.c.space_id == wanted.id).scalar_subquery()
        newer = select(chunks.c.id).where(chunks.c.id > func.coalesce(last, 0)).limit(FEW + 1).subquery()
        with self._store.read() as reading:
            return int(reading.execute(select(func.count()).select_from(newer)).scalar_one()) > FEW

    def known(self, space: Space, digests: Collection[bytes]) -> dict[bytes, bytes]:
        """Return the vectors of texts that were embedded before, by digest."""
        rows = select(table.c.digest, table.c.vector).where(table.c.space_id == space.id, table.c.vector.is_not(None))
        with self._store.read() as reading:
            return {
                digest: vector
                for part in in_parts(digests)
                for digest, vector in reading.execute(rows.where(table.c.digest.in_(part)))
            }

    def put(self, space: Space, new: Sequence[Embedding]) -> None:
        """Store embeddings. Ignores those whose chunk was deleted meanwhile, or embedded by another process."""
        with self._store.write() as writing:
            given = {one.chunk_id for one in new}
            is_done = (table.c.space_id == space.id) & among(writing, table.c.chunk_id, given)
            existing = select(chunks.c.id).where(among(writing, chunks.c.id, given))
            done = select(table.c.chunk_id).where(is_done)
            free = {*writing.execute(existing).scalars()}.difference(writing.execute(done).scalars())
            kept = [one for one in new if one.chunk_id in free]
            if kept:
                numbers = writing.ids("embeddings", len(kept))
                rows = [(number, space.id, *astuple(one)) for number, one in zip(numbers, kept, strict=True)]
                writing.insert(table, rows)

    def complete(self, space: Space) -> None:
        """Search this space from now on, and delete all others."""
        with self._store.write() as writing:
            writing.execute(update(search_model).values(space_id=space.id))
        while True:
            with self._store.write() as writing:
                old = select(table.c.id).where(table.c.space_id != space.id).limit(_ROWS_AT_ONCE)
                if not _forget(writing, table.c.id.in_(old)):
                    writing.execute(delete(spaces).where(spaces.c.id != space.id))
                    return
            self._store.let_others_write()

    def counts(self, space: Space | None) -> EmbeddingCounts:
        """Return how many chunks are embedded in a space, and how many there are."""
        with self._store.read() as reading:
            total = reading.execute(select(func.count()).select_from(chunks)).scalar_one()
            if space is None:
                return EmbeddingCounts(0, total, 0)
            mine = table.c.space_id == space.id
            # As in `vectors`: the index of chunks has all three columns, and is read in 60 ms for a million rows.
            first = select(func.count()).select_from(table).where(table.c.space_id + 0 == space.id, table.c.part == 0)
            done = reading.execute(first).scalar_one()
            refused = select(func.count()).select_from(table).where(mine, table.c.refusal.is_not(None))
            return EmbeddingCounts(done, total, reading.execute(refused).scalar_one())

    def watermark(self) -> Watermark:
        """Return what tells whether vectors in memory are current."""
        names = ("embeddings", _DELETED)
        with self._store.read() as reading:
            rows = reading.execute(select(counters.c.name, counters.c.value).where(counters.c.name.in_(names)))
            values = dict(rows.tuples().all())
        return Watermark(values["embeddings"], values[_DELETED])

    def vectors(self, space: Space, after: int) -> Iterator[Sequence[tuple[int, int, int, bytes]]]:
        """Yield the vectors with IDs above `after` in groups, as (ID, content ID, chunk ID, vector)."""
        columns = select(table.c.id, table.c.content_id, table.c.chunk_id, table.c.vector)
        # The sum keeps SQLite from using the index of spaces: it would read all rows, and sort them in memory.
        mine = columns.where(table.c.space_id + 0 == space.id, table.c.id > after, table.c.vector.is_not(None))
        with self._store.read() as reading:
            rows = reading.execute(mine.order_by(table.c.id).execution_options(yield_per=_ROWS_AT_ONCE))
            yield from rows.tuples().partitions()


def _space(reading: Reading, which: ColumnElement[bool]) -> Space | None:
    row = reading.execute(select(spaces).where(which)).first()
    return None if row is None else Space(row.id, row.name, row.setting, row.dimensions)


def damaged() -> ColumnElement[bool]:
    """Return the condition that a vector does not have the size of its space."""
    size = select(spaces.c.dimensions).where(spaces.c.id == table.c.space_id).scalar_subquery()
    return table.c.vector.is_not(None) & (func.length(table.c.vector) != size)


def forget_damaged(writing: Writing) -> None:
    """Delete the embeddings of chunks with a damaged vector, so that they are made again."""
    _forget(writing, table.c.chunk_id.in_(select(table.c.chunk_id).where(damaged())))


def forget(writing: Writing, content_ids: Collection[int]) -> None:
    """Delete the embeddings of contents, before the contents are deleted."""
    _forget(writing, table.c.content_id.in_(content_ids))


def _forget(writing: Writing, which: ColumnElement[bool]) -> int:
    number = writing.execute(delete(table).where(which)).rowcount
    if number:
        writing.ids(_DELETED, number)
    return number
