"""Documents as sinks receive them, and their versions."""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import orjson
from sqlalchemy import Select, func, literal, select

from catchment.ledger.db.database import AnyRow, Reading, Store, among, from_json, maybe_time
from catchment.ledger.db.row_records import record
from catchment.ledger.db.schema import (
    chunks,
    contents,
    documents,
    embeddings,
    entities,
    items,
    links,
    search_model,
    sources,
    spaces,
)
from catchment.model import Chunk, ChunkVector, DocumentCopy, Entity, EntityKind, Link, LinkKind

LIVE = documents.c.removed_at.is_(None)


class SentDocuments:
    """The documents of the library for sinks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def versions(self, after: int, limit: int, *, vectors: bool = False) -> dict[int, str]:
        """Return the versions of the next documents of the library, by ID, from `after` on (exclusive).

        `vectors`: they depend on the embeddings, too.
        """
        page = _head(vectors).where(LIVE, documents.c.id > after).order_by(documents.c.id).limit(limit)
        return {row.id: _version(row) for row in self._store.execute(page)}

    def documents(self, document_ids: Collection[int], *, vectors: bool = False) -> list[DocumentCopy]:
        """Return those documents that are in the library now, with their embeddings if `vectors`."""
        with self._store.read() as reading:
            rows = reading.execute(_whole(vectors).where(LIVE, among(reading, documents.c.id, document_ids))).all()
            of_links, of_entities, of_chunks = _parts(reading, {row.content_id for row in rows})
            of_vectors = _vectors(reading, of_chunks) if vectors else {}
        return [
            _copy(
                row,
                of_links[row.content_id],
                of_entities[row.content_id],
                of_chunks[row.content_id].values(),
                of_vectors.get(row.content_id, ()),
            )
            for row in rows
        ]


def _head(vectors: bool, *more: Any) -> Select[Any]:
    """Select the values that the version of a document depends on."""
    last: Any = literal(None)
    if vectors:
        # With the model that searches use: it has all vectors.
        searched = embeddings.c.space_id == select(search_model.c.space_id).scalar_subquery()
        latest = select(func.max(embeddings.c.id)).where(embeddings.c.content_id == documents.c.content_id, searched)
        last = latest.scalar_subquery()
    return (
        select(documents, items.c.locator, sources.c.name.label("source"), sources.c.kind, last.label("last_vector"))
        .add_columns(contents.c.hash, contents.c.normalizer, *more)
        .join_from(documents, items, items.c.id == documents.c.item_id)
        .join(sources, sources.c.id == documents.c.source_id)
        .join(contents, contents.c.id == documents.c.content_id)
    )


def _vectors(reading: Reading, of_chunks: Mapping[int, Mapping[int, Chunk]]) -> defaultdict[int, list[ChunkVector]]:
    """Return the vectors of contents by the model that searches use."""
    vectors = defaultdict[int, list[ChunkVector]](list)
    numbers = {number: index for parts in of_chunks.values() for index, number in enumerate(parts)}
    columns = embeddings.c
    of_contents = (
        select(columns.content_id, columns.chunk_id, columns.part, columns.vector, spaces.c.name)
        .join_from(embeddings, spaces, spaces.c.id == columns.space_id)
        .join(search_model, search_model.c.space_id == spaces.c.id)
        .where(among(reading, columns.content_id, list(of_chunks)), columns.vector.is_not(None))
        .order_by(columns.chunk_id, columns.part)
    )
    for content_id, chunk_id, part, vector, model in reading.execute(of_contents).tuples():
        values = struct.unpack(f"{len(vector)}b", vector)
        vectors[content_id].append(ChunkVector(numbers[chunk_id], part, model, values))
    return vectors


def _whole(vectors: bool) -> Select[Any]:
    return _head(
        vectors,
        contents.c.text,
        contents.c.media_type,
        contents.c.language,
        contents.c.author,
        contents.c.created,
        contents.c.modified.label("own_modified"),
        contents.c.properties.label("own_properties"),
    )


def _version(row: AnyRow) -> str:
    known = [row.hash, row.normalizer, row.source, row.locator, row.title, row.aliases, row.modified, row.metadata]
    if row.last_vector is not None:
        known.append(row.last_vector)
    return hashlib.blake2b(orjson.dumps(known), digest_size=8).hexdigest()


def _copy(
    row: AnyRow,
    its_links: Iterable[Link],
    its_entities: Iterable[Entity],
    its_chunks: Iterable[Chunk],
    its_vectors: Iterable[ChunkVector],
) -> DocumentCopy:
    return record(
        DocumentCopy,
        row,
        version=_version(row),
        item=row.locator,
        modified=maybe_time(row.modified if row.modified is not None else row.own_modified),
        properties=from_json(row.own_properties),
        aliases=tuple(row.aliases.split("\n")) if row.aliases else (),
        links=tuple(its_links),
        entities=tuple(its_entities),
        chunks=tuple(its_chunks),
        vectors=tuple(its_vectors),
    )


def _parts(
    reading: Reading, content_ids: Collection[int]
) -> tuple[Mapping[int, list[Link]], Mapping[int, list[Entity]], Mapping[int, dict[int, Chunk]]]:
    """Return the links, entities and chunks of contents, chunks by ID."""
    of_links, of_entities = defaultdict[int, list[Link]](list), defaultdict[int, list[Entity]](list)
    of_chunks = defaultdict[int, dict[int, Chunk]](dict)
    query = select(links).where(among(reading, links.c.content_id, content_ids))
    for row in reading.execute(query.order_by(links.c.content_id, links.c.position)):
        link = Link(LinkKind(row.kind), row.target, row.anchor, row.label, row.start, row.stop)
        of_links[row.content_id].append(link)
    named = select(entities).where(among(reading, entities.c.content_id, content_ids))
    for row in reading.execute(named.order_by(entities.c.content_id, entities.c.position)):
        entity = Entity(EntityKind(row.kind), row.value, row.detail, row.start, row.stop, row.confidence)
        of_entities[row.content_id].append(entity)
    cut = select(chunks).where(among(reading, chunks.c.content_id, content_ids)).order_by(chunks.c.id)
    for row in reading.execute(cut):
        of_chunks[row.content_id][row.id] = Chunk(row.start, row.stop, row.heading)
    return of_links, of_entities, of_chunks
