"""Embeddings of the chunks, by space: the output of one version of a model. Vectors of different spaces never mix.

A chunk is embedded in parts, because a vector represents a long text poorly. The parts of a chunk are stored in one
transaction. A part has no vector if it needs none (a quotation, an empty text) or if the model refused it, with the reason.
Each row has a checksum of its columns. A row that differs from it is never searched, and is deleted by the next run of `embed`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, TextClause, delete, exists, func, literal, null, or_, select, update

from catchment.errors import ModelChanged
from catchment.ledger.db.database import Reading, Store, Writing, among
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.schema import (
    before_images,
    chunks,
    consents,
    contents,
    counters,
    documents,
    search_model,
    sources,
    spaces,
)
from catchment.ledger.db.schema import embeddings as table
from catchment.ledger.db.schema import title_embeddings as titles
from catchment.records.standing import OFF
from catchment.telemetry.catalogue import EMBEDDED

DEFAULT_MODEL = "use"
FEW = 200
"""As many passages are embedded by the process that searches, within a second. More are left to the flow `embed`."""
_DELETED = "embeddings_deleted"
_PREPARED = " /2"
"""Suffix of the model in the name of a space: the version of the division and prefixes of texts, which change the vectors."""
_ROWS_AT_ONCE = 4_000
NO_TEXT = b""
"""The digest of a chunk that needs no vector."""
_IDS = struct.Struct("<4q")
_WITHDRAWN = select(consents.c.source_id).where(consents.c.withdrawn_at.is_not(None), consents.c.purged_at.is_(None))
_ROWS = select(table)
_TITLE_ROWS = select(titles.c.id, titles.c.space_id, titles.c.content_id, titles.c.document_id).add_columns(
    literal(0), literal(NO_TEXT), titles.c.vector, null(), titles.c.checksum
)
"""The embeddings of names, in the columns of `_ROWS`."""


@dataclass(frozen=True, slots=True)
class Space:
    """The output of one version of a model for texts that were prepared in one way.

    `setting` names the model as `Embeddings.setting` does.
    """

    id: int
    name: str
    setting: str
    dimensions: int

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.name.removesuffix(_PREPARED)


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk to be embedded."""

    content_id: int
    chunk_id: int
    title: str
    heading: str
    text: str


class Title(NamedTuple):
    """The name of a live document, to be embedded. `text`: its title and aliases, in lines."""

    document_id: int
    content_id: int
    text: str


class Vector(NamedTuple):
    """An embedding of a part or a title. `chunk_id`: of a title, its document."""

    id: int
    content_id: int
    chunk_id: int
    vector: bytes


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
    """While unchanged, vectors in memory are current.

    `last`: the highest ID of a part. `last_title`: grows with each title, and each name that is new or changes. `deleted`: how
    many were ever deleted that memory has to forget.
    """

    last: int
    last_title: int
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
        """Return the latest space of the wanted model with texts as they are prepared now; None before its first use."""
        with self._store.read() as reading:
            with_setting = spaces.join(search_model, search_model.c.setting == spaces.c.setting)
            current = select(func.max(spaces.c.id)).where(spaces.c.name.like(f"%{_PREPARED}"))
            latest = current.select_from(with_setting).scalar_subquery()
            return _space(reading, spaces.c.id == latest)

    def space(self, model: str, setting: str, dimensions: int) -> Space:
        """Return the space of the model with this name, created if new. The first space of a library is searched at once.

        Raises ModelChanged if another model than `setting` is wanted now.
        """
        name = f"{model}{_PREPARED}"
        with self._store.write() as writing:
            if writing.execute(select(search_model.c.setting)).scalar_one() != setting:
                raise _changed()
            space = _space(writing, spaces.c.name == name)
            if space is None:
                number = writing.ids("spaces")[0]
                writing.insert(spaces, [(number, name, setting, dimensions)])
                space = Space(number, name, setting, dimensions)
            is_first = search_model.c.space_id.is_(None)
            writing.execute(update(search_model).where(is_first).values(space_id=space.id))
        return space

    def missing(self, space: Space, after: int, limit: int) -> list[Passage]:
        """Return the next chunks without embeddings, by ID, from `after` on (exclusive)."""
        is_done = select(table.c.id).where(table.c.chunk_id == chunks.c.id, table.c.space_id == space.id).exists()
        columns = chunks.c.id, chunks.c.content_id, chunks.c.start, chunks.c.stop, chunks.c.heading
        query = select(*columns).where(chunks.c.id > after, ~is_done).order_by(chunks.c.id).limit(limit)
        with self._store.read() as reading:
            rows = reading.execute(query).all()
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

    def allowed(self, space: Space, chunk_ids: Collection[int]) -> set[int]:
        """Return the chunks that may be sent to the model now: they exist, and a source with consent has them.

        Raises ModelChanged if another model is wanted.
        """
        with self._store.read() as reading:
            return _allowed(reading, space, chunk_ids)

    def last_passage(self) -> int:
        """Return the highest ID of a chunk; 0 without chunks."""
        return self._store.execute(select(func.max(chunks.c.id))).scalar() or 0

    def needs_run(self) -> bool:
        """Return whether the flow `embed` has to make embeddings: more than `FEW` are missing, or the model is new."""
        if self.setting == OFF:
            return False
        chosen, searched = self.wanted(), self.searched()
        if searched is None or chosen is None or chosen.id != searched.id:
            return True
        last = select(func.max(table.c.chunk_id)).where(table.c.space_id == chosen.id).scalar_subquery()
        newer = select(chunks.c.id).where(chunks.c.id > func.coalesce(last, 0))
        with self._store.read() as reading:
            return any(
                len(reading.execute(each.limit(FEW + 1)).all()) > FEW for each in (newer, _without_title(chosen))
            )

    def known(self, space: Space, digests: Collection[bytes]) -> dict[bytes, bytes]:
        """Return the vectors of texts that were embedded before, by digest."""
        of_space = _ROWS.where(table.c.space_id == space.id, table.c.vector.is_not(None))
        with self._store.read() as reading:
            return {
                row.digest: row.vector
                for part in in_parts(digests)
                for row in reading.execute(of_space.where(table.c.digest.in_(part)))
                if _is_sound(*row)
            }

    def put(self, space: Space, new: Sequence[Embedding]) -> None:
        """Store embeddings. Ignores chunks that were deleted meanwhile, or embedded by another process.

        Raises ModelChanged if another model is wanted now.
        """
        with self._store.write() as writing:
            chunk_ids = {embedding.chunk_id for embedding in new}
            is_done = (table.c.space_id == space.id) & among(writing, table.c.chunk_id, chunk_ids)
            stored = select(table.c.chunk_id).where(is_done)
            free = _allowed(writing, space, chunk_ids).difference(writing.execute(stored).scalars())
            unembedded = [embedding for embedding in new if embedding.chunk_id in free]
            if unembedded:
                numbers = writing.ids("embeddings", len(unembedded))
                rows = [
                    (number, space.id, *astuple(embedding), _checksum(space.id, *astuple(embedding)))
                    for number, embedding in zip(numbers, unembedded, strict=True)
                ]
                writing.insert(table, rows)
                writing.tally.add(EMBEDDED, sum(embedding.vector is not None for embedding in unembedded))

    def complete(self, space: Space) -> bool:
        """Search this space from now on, and delete all others. Returns False if most passages have no vector in it.

        Raises ModelChanged if another model is wanted now.
        """
        with self._store.write() as writing:
            _require_wanted(writing, space)
            if _lacks_most(writing, space):
                return False
            writing.execute(update(search_model).values(space_id=space.id))
        with self._store.write() as writing:
            writing.execute(delete(titles).where(titles.c.space_id != space.id))
        while True:
            with self._store.write() as writing:
                _require_wanted(writing, space)
                old = select(table.c.id).where(table.c.space_id != space.id).limit(_ROWS_AT_ONCE)
                if not _forget(writing, table.c.id.in_(old)):
                    writing.execute(delete(spaces).where(spaces.c.id != space.id))
                    return True
            self._store.let_others_write()

    def forget_damaged(self) -> None:
        """Delete the embeddings with a wrong checksum, so that they are made again. Reads all embeddings."""
        with self._store.read() as reading:
            damaged_rows = damaged(reading) or damaged_titles(reading)
        if damaged_rows:
            with self._store.write() as writing:
                forget_damaged(writing)

    def counts(self, space: Space | None) -> EmbeddingCounts:
        """Return how many chunks are embedded in a space, and how many there are."""
        with self._store.read() as reading:
            total = reading.execute(select(func.count()).select_from(chunks)).scalar_one()
            if space is None:
                return EmbeddingCounts(0, total, 0)
            embedded = reading.execute(_done(space)).scalar_one()
            refused = select(func.count()).select_from(table)
            refused = refused.where(table.c.space_id == space.id, table.c.refusal.is_not(None))
            return EmbeddingCounts(embedded, total, reading.execute(refused).scalar_one())

    def lacking(self, space: Space) -> list[str]:
        """Return the names of sources with passages that have no embedding in this space yet."""
        is_done = select(table.c.id).where(table.c.chunk_id == chunks.c.id, table.c.space_id == space.id).exists()
        query = select(chunks.c.id).join(documents, documents.c.content_id == chunks.c.content_id)
        query = query.where(documents.c.source_id == sources.c.id, documents.c.removed_at.is_(None), ~is_done)
        named = select(sources.c.name).where(sources.c.id.not_in(_WITHDRAWN), query.exists()).order_by(sources.c.name)
        with self._store.read() as reading:
            total = reading.execute(select(func.count()).select_from(chunks)).scalar_one()
            if reading.execute(_done(space)).scalar_one() == total:
                return []
            return list(reading.execute(named).scalars())

    def watermark(self) -> Watermark:
        """Return a value that differs from an earlier one if vectors in memory are outdated."""
        names = ("embeddings", "title_embeddings", _DELETED)
        with self._store.read() as reading:
            rows = reading.execute(select(counters.c.name, counters.c.value).where(counters.c.name.in_(names)))
            values = dict(rows.tuples().all())
        return Watermark(values["embeddings"], values["title_embeddings"], values[_DELETED])

    def vectors(self, space: Space, after: int) -> Iterator[Sequence[Vector]]:
        """Yield the sound vectors of parts with IDs above `after`, in groups."""
        # The sum keeps SQLite from using the index of spaces: it would read all rows, and sort them in memory.
        which = (table.c.space_id + 0 == space.id) & (table.c.id > after) & table.c.vector.is_not(None)
        return self._sound(_ROWS.where(which).order_by(table.c.id))

    def title_vectors(self, space: Space, after: int) -> Iterator[Sequence[Vector]]:
        """Yield the sound vectors of titles with IDs above `after`, in groups."""
        which = (titles.c.space_id == space.id) & (titles.c.id > after) & titles.c.vector.is_not(None)
        return self._sound(_TITLE_ROWS.where(which).order_by(titles.c.id))

    def _sound(self, query: Select[Any]) -> Iterator[Sequence[Vector]]:
        with self._store.read() as reading:
            for group in _groups(reading, query):
                if sound := [Vector(row[0], row[2], row[3], row[6]) for row in group if _is_sound(*row)]:
                    yield sound

    def missing_titles(self, space: Space, after: int, limit: int) -> list[Title]:
        """Return the next documents without an embedding of their names, by ID above `after`. Only sources with consent.

        Raises ModelChanged if another model is wanted.
        """
        query = _without_title(space).where(documents.c.id > after).order_by(documents.c.id).limit(limit)
        with self._store.read() as reading:
            _require_wanted(reading, space)
            return _titles(reading, query)

    def put_titles(self, space: Space, new: Mapping[Title, bytes | None]) -> None:
        """Store embeddings of names; None: needs none. Ignores documents that are not missing now, or have another name.

        Raises ModelChanged if another model is wanted now.
        """
        with self._store.write() as writing:
            _require_wanted(writing, space)
            of_documents = among(writing, documents.c.id, [title.document_id for title in new])
            unembedded = [
                title for title in _titles(writing, _without_title(space).where(of_documents)) if title in new
            ]
            numbers = writing.ids("title_embeddings", len(unembedded)) if unembedded else range(0)
            rows = []
            for number, title in zip(numbers, unembedded, strict=True):
                checksum = _checksum(space.id, title.content_id, title.document_id, 0, NO_TEXT, new[title], None)
                rows.append((number, space.id, title.document_id, title.content_id, new[title], checksum))
            writing.insert(titles, rows)


def damaged(reading: Reading, where: ColumnElement[bool] | TextClause | None = None) -> list[int]:
    """Return the chunks that have an embedding with a wrong checksum, by ID. Reads all embeddings that meet the condition."""
    return _damaged(reading, _ROWS, where)


def damaged_titles(reading: Reading, where: ColumnElement[bool] | TextClause | None = None) -> list[int]:
    """Return the documents with a wrong checksum of the embedding of their names, as `damaged`."""
    return _damaged(reading, _TITLE_ROWS, where)


def _damaged(reading: Reading, query: Select[Any], where: ColumnElement[bool] | TextClause | None) -> list[int]:
    groups = _groups(reading, query if where is None else query.where(where))
    return sorted({row[3] for group in groups for row in group if not _is_sound(*row)})


def _groups(reading: Reading, query: Select[Any]) -> Iterator[Sequence[Any]]:
    return reading.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)).tuples().partitions()


def forget_damaged(writing: Writing) -> None:
    """Delete the embeddings of chunks and names with a wrong checksum, so that they are made again."""
    for part in in_parts(damaged(writing)):
        _forget(writing, table.c.chunk_id.in_(part))
    for part in in_parts(damaged_titles(writing)):
        writing.execute(delete(titles).where(titles.c.document_id.in_(part)))


def forget(writing: Writing, content_ids: Collection[int]) -> None:
    """Delete the embeddings of contents, before the contents are deleted."""
    _forget(writing, table.c.content_id.in_(content_ids))


def forget_titles(writing: Writing, which: ColumnElement[bool]) -> None:
    """Delete the embeddings of the names of these documents, before they change."""
    of_documents, copy = titles.c.document_id.in_(select(documents.c.id).where(which)), documents.alias()
    shared = select(titles.c.id).join(copy, copy.c.content_id == titles.c.content_id)
    if writing.execute(shared.where(of_documents, copy.c.id != titles.c.document_id).limit(1)).first() is not None:
        writing.ids(_DELETED)  # Memory would find the copy by this name.
    writing.execute(delete(titles).where(of_documents))


def _forget(writing: Writing, which: ColumnElement[bool]) -> int:
    number = writing.execute(delete(table).where(which)).rowcount
    if number:
        writing.ids(_DELETED, number)
    return number


def _checksum(
    space_id: int, content_id: int, chunk_id: int, part: int, digest: bytes, vector: bytes | None, refusal: str | None
) -> bytes:
    value = (refusal or "").encode() if vector is None else vector
    return hashlib.blake2b(_IDS.pack(space_id, content_id, chunk_id, part) + digest + value, digest_size=8).digest()


def _is_sound(
    _id: int,
    space_id: int,
    content_id: int,
    chunk_id: int,
    part: int,
    digest: Any,
    vector: Any,
    refusal: Any,
    checksum: Any,
) -> bool:
    """Return whether a row of `_ROWS` has the checksum of its columns. Damaged columns may have another type."""
    try:
        return bool(_checksum(space_id, content_id, chunk_id, part, digest, vector, refusal) == checksum)
    except (TypeError, AttributeError, struct.error):
        return False


def _changed() -> ModelChanged:
    return ModelChanged("search by meaning: the model has changed; another run embeds with the new one")


def _require_wanted(reading: Reading, space: Space) -> None:
    """Raise ModelChanged if another model is wanted, or the space was deleted."""
    joined = spaces.join(search_model, search_model.c.setting == spaces.c.setting)
    if reading.execute(select(spaces.c.id).select_from(joined).where(spaces.c.id == space.id)).first() is None:
        raise _changed()


def _allowed(reading: Reading, space: Space, chunk_ids: Collection[int]) -> set[int]:
    _require_wanted(reading, space)
    has_owner = [
        exists().where(owner.c.content_id == chunks.c.content_id, owner.c.source_id.not_in(_WITHDRAWN))
        for owner in (documents, before_images)
    ]
    query = select(chunks.c.id).where(among(reading, chunks.c.id, chunk_ids), or_(*has_owner))
    return {*reading.execute(query).scalars()}


def _without_title(space: Space) -> Select[tuple[int, int, str, str]]:
    """Select ID, content, title and aliases of live documents with consent and without an embedding of their names."""
    is_done = select(titles.c.id).where(titles.c.document_id == documents.c.id, titles.c.space_id == space.id)
    query = select(documents.c.id, documents.c.content_id, documents.c.title, documents.c.aliases)
    return query.where(documents.c.removed_at.is_(None), documents.c.source_id.not_in(_WITHDRAWN), ~is_done.exists())


def _titles(reading: Reading, which: Select[tuple[int, int, str, str]]) -> list[Title]:
    rows = reading.execute(which).tuples()
    return [Title(number, content, f"{title}\n{aliases}".strip()) for number, content, title, aliases in rows]


def _lacks_most(reading: Reading, space: Space) -> bool:
    """Return whether more than half of the chunks that need a vector have none."""
    of_space = table.c.space_id == space.id
    no_text = select(func.count()).select_from(table).where(of_space, table.c.digest == NO_TEXT)
    refused = select(func.count(table.c.chunk_id.distinct())).where(of_space, table.c.refusal.is_not(None))
    total, embedded, without, lost = (
        int(reading.execute(number).scalar_one())
        for number in (select(func.count()).select_from(chunks), _done(space), no_text, refused)
    )
    return 2 * (total - embedded + lost) > total - without


def _done(space: Space) -> Select[tuple[int]]:
    """Count the chunks with embeddings."""
    # The sum keeps SQLite from using the index of spaces. The index of chunks has all three columns, and is read in 60 ms
    # for a million rows.
    return select(func.count()).select_from(table).where(table.c.space_id + 0 == space.id, table.c.part == 0)


def _space(reading: Reading, which: ColumnElement[bool]) -> Space | None:
    row = reading.execute(select(spaces).where(which)).first()
    return None if row is None else Space(row.id, row.name, row.setting, row.dimensions)
