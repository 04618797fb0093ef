"""A PostgreSQL database: documents, chunks, links and, with the extension pgvector, embeddings in the schema `catchment`.

The place is an address such as `postgresql://me@localhost/library`. docs/sinks.md describes the tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from catchment.errors import BadInput, DocumentRefused, Refused, SinkUnavailable
from catchment.model import DocumentCopy
from catchment.runtime import addresses

_CREATE = """
CREATE SCHEMA IF NOT EXISTS catchment;
CREATE TABLE catchment.documents (
    id bigint PRIMARY KEY, version text NOT NULL, source text NOT NULL, kind text NOT NULL, item text NOT NULL,
    title text NOT NULL, media_type text NOT NULL, language text, author text, created timestamptz, modified timestamptz,
    text text NOT NULL, properties jsonb NOT NULL, metadata jsonb NOT NULL, aliases text[] NOT NULL, tags text[] NOT NULL,
    people text[] NOT NULL, addresses text[] NOT NULL);
CREATE INDEX ON catchment.documents (source, item);
CREATE INDEX ON catchment.documents USING gin (tags);
CREATE TABLE catchment.chunks (
    document bigint REFERENCES catchment.documents ON DELETE CASCADE, number int, heading text NOT NULL, text text NOT NULL,
    PRIMARY KEY (document, number));
CREATE TABLE catchment.links (
    document bigint REFERENCES catchment.documents ON DELETE CASCADE, number int, kind text NOT NULL, target text NOT NULL,
    anchor text NOT NULL, label text NOT NULL, PRIMARY KEY (document, number));
"""
_VECTORS = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE catchment.embeddings (
    document bigint, chunk int, part int, model text NOT NULL, embedding vector NOT NULL,
    PRIMARY KEY (document, chunk, part),
    FOREIGN KEY (document, chunk) REFERENCES catchment.chunks ON DELETE CASCADE);
"""
_STAMP = "CREATE TABLE IF NOT EXISTS catchment.stamp (value text NOT NULL)"
_TIMEOUT = 10


class PostgreSQL:
    """A PostgreSQL database."""

    batch = 500
    wants_vectors = True
    is_folder = False

    def __init__(self, place: str, password: str = "", *, create: bool = False) -> None:
        try:
            parameters = addresses.postgresql(place)
        except BadInput as error:
            raise BadInput(f"postgresql: {error}") from None
        if not parameters.keys().isdisjoint(addresses.SECRETS):
            raise BadInput(f"postgresql: {addresses.PASSWORD_IN_ADDRESS}")
        with _translated():
            self._connection = psycopg.connect(
                **addresses.pinned({"connect_timeout": _TIMEOUT} | parameters),
                autocommit=True,
                password=password or None,
            )
            try:
                if create:
                    self._create()
                self._has_vectors = self._exists("embeddings")
                if not self._exists("documents"):
                    raise SinkUnavailable("the schema catchment is missing; restore it, or remove the sink")
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        self._connection.close()

    def _exists(self, table: str) -> bool:
        row = self._connection.execute("SELECT to_regclass(%s)", [f"catchment.{table}"]).fetchone()
        return row is not None and row[0] is not None

    def _create(self) -> None:
        if self._exists("documents"):
            raise Refused(
                "postgresql: the database has the schema catchment already; drop it, or choose another database"
            )
        with self._connection.transaction():
            self._connection.execute(_CREATE)
            try:
                with self._connection.transaction():
                    self._connection.execute(_VECTORS)
            except (
                psycopg.errors.FeatureNotSupported,
                psycopg.errors.UndefinedFile,
                psycopg.errors.InsufficientPrivilege,
            ):
                pass  # Without the extension, there are no embeddings.

    def write(self, changed: Sequence[DocumentCopy], removed: Collection[int]) -> None:
        numbers = [*removed, *(document.id for document in changed)]
        with _translated(), self._connection.transaction():
            self._connection.execute("DELETE FROM catchment.documents WHERE id = ANY(%s)", [numbers])
            self._copy("documents", map(_document, changed))
            self._copy("chunks", (row for document in changed for row in _chunks(document)))
            self._copy("links", (row for document in changed for row in _links(document)))
            if self._has_vectors:
                self._copy("embeddings", (row for document in changed for row in _embeddings(document)))

    def versions(self, after: int, last: int) -> Mapping[int, str]:
        with _translated():
            rows = self._connection.execute(
                "SELECT id, version FROM catchment.documents WHERE id > %s AND id <= %s", [after, last]
            ).fetchall()
        return dict(rows)

    def mark(self, stamp: str) -> None:
        with _translated(), self._connection.transaction():
            if not self._exists("stamp"):
                self._connection.execute(_STAMP)
            self._connection.execute("DELETE FROM catchment.stamp")
            self._connection.execute("INSERT INTO catchment.stamp VALUES (%s)", [stamp])

    def stamp(self) -> str | None:
        with _translated():
            if not self._exists("stamp"):
                return None
            row = self._connection.execute("SELECT value FROM catchment.stamp").fetchone()
        return None if row is None else row[0]

    def _copy(self, table: str, rows: Iterator[tuple[Any, ...]]) -> None:
        with self._connection.cursor().copy(f"COPY catchment.{table} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


@contextmanager
def _translated() -> Iterator[None]:
    """Translate errors of the connection and the server, without addresses."""
    try:
        yield
    except psycopg.DataError as error:
        raise DocumentRefused(f"refused by PostgreSQL ({type(error).__name__})") from error
    except psycopg.Error as error:
        code = f", {error.sqlstate}" if error.sqlstate else ""
        raise SinkUnavailable(
            f"the database cannot be used ({type(error).__name__}{code}); check its address, login and space"
        ) from error


def _document(document: DocumentCopy) -> tuple[Any, ...]:
    row = {name: _cleaned(value) for name, value in document.columns().items()}
    return (*(row | {name: Jsonb(row[name]) for name in ("properties", "metadata")}).values(),)


def _chunks(document: DocumentCopy) -> Iterator[tuple[Any, ...]]:
    for number, chunk in enumerate(document.chunks):
        yield document.id, number, _clean(chunk.heading), _clean(document.text[chunk.start : chunk.end])


def _links(document: DocumentCopy) -> Iterator[tuple[Any, ...]]:
    for number, link in enumerate(document.links):
        yield document.id, number, link.kind.value, _clean(link.target), _clean(link.anchor), _clean(link.label)


def _embeddings(document: DocumentCopy) -> Iterator[tuple[Any, ...]]:
    for vector in document.vectors:
        values = "[" + ",".join(map(str, vector.values)) + "]"
        yield document.id, vector.chunk, vector.part, vector.model, values


def _clean(text: str) -> str:
    """Remove NUL characters, which PostgreSQL cannot store."""
    return text.replace("\x00", "")


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, Mapping):
        return {_clean(str(key)): _cleaned(inner) for key, inner in value.items()}
    return [*map(_cleaned, value)] if isinstance(value, list | tuple) else value
