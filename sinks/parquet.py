"""A folder of Parquet files with the columns of the JSON Lines, and one Parquet file as an export. Made by DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from catchment.errors import Refused, SinkUnavailable
from catchment.runtime import atomic_files
from sinks.folder import MARK, translated
from sinks.shards import JsonFile, JsonLines, is_own, own_file, put, unlinked, writing_file

_TYPES = {
    "id": "BIGINT",
    **dict.fromkeys(("version", "source", "kind", "item", "title", "media_type", "language", "author"), "VARCHAR"),
    **dict.fromkeys(("created", "modified"), "TIMESTAMPTZ"),
    "text": "VARCHAR",
    **dict.fromkeys(("properties", "metadata"), "JSON"),
    **dict.fromkeys(("aliases", "tags", "people", "addresses"), "VARCHAR[]"),
    "links": 'STRUCT("kind" VARCHAR, "target" VARCHAR, "anchor" VARCHAR, "label" VARCHAR, "start" INT, "end" INT)[]',
    "chunks": 'STRUCT("start" INT, "end" INT, "heading" VARCHAR)[]',
}
_COLUMNS = "{" + ", ".join(f"{name}: '{kind}'" for name, kind in _TYPES.items()) + "}"
_LINES = f"read_json($lines, format = 'newline_delimited', columns = {_COLUMNS}, maximum_object_size = $longest)"
_LEAST = 1 << 20
"""Bytes of DuckDB's buffer for a line, which must hold the longest."""
_SETTINGS = ("SET threads = 1", "SET memory_limit = '1GB'", "SET autoinstall_known_extensions = false")


class Parquet(JsonLines):
    """A folder of Parquet files."""

    _ending = "parquet"

    def _read(self, path: Path) -> Iterator[tuple[int, str]]:
        if not is_own(path):
            return
        with _database() as database:
            yield from database.execute("SELECT id, version FROM read_parquet($1)", [str(path)]).fetchall()

    def _rewrite(self, path: Path, changes: Mapping[int, bytes | None]) -> None:
        lines, fresh = (unlinked(self._root / MARK / name) for name in ("lines.jsonl", path.name))
        texts = [text for text in changes.values() if text is not None]
        with own_file(lines) as file:
            file.writelines(texts)
        own_file(fresh).close()
        query = f"SELECT * FROM {_LINES}"
        parameters: dict[str, Any] = {"lines": str(lines), "longest": max([_LEAST, *map(len, texts)])}
        if is_own(path):
            ids = ", ".join(map(str, changes))
            query += f" UNION ALL SELECT * FROM read_parquet($old) WHERE id NOT IN ({ids})"
            parameters["old"] = str(path)
        with _database() as database:
            if _copied(database, query, parameters, fresh):
                put(fresh, path)
            else:
                path.unlink(missing_ok=True)
        lines.unlink()


@contextmanager
def writing_parquet(path: Path) -> Iterator[JsonFile]:
    """Write one new Parquet file, which has its name when it is complete. Raises Refused if it exists."""
    if path.exists():
        raise Refused(f"{path.name}: exists already; choose another name")
    with translated():
        lines, fresh = atomic_files.unfinished(path), atomic_files.unfinished(path.with_suffix(".fresh"))
        try:
            with writing_file(lines) as file:
                yield file
            own_file(fresh).close()
            with _database() as database:
                _copied(
                    database,
                    f"SELECT * FROM {_LINES}",
                    {"lines": str(lines), "longest": max(_LEAST, file.longest)},
                    fresh,
                )
            atomic_files.put(fresh, path)
        finally:
            lines.unlink(missing_ok=True)
            fresh.unlink(missing_ok=True)


def _copied(database: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, Any], to: Path) -> int:
    """Write the rows of a query into a file, by ID. Return their number."""
    target = str(to).replace("'", "''")
    copy = f"COPY ({query} ORDER BY id) TO '{target}' (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
    row = database.execute(copy, parameters).fetchone()
    return int(row[0]) if row else 0


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        with duckdb.connect() as database:
            for setting in _SETTINGS:
                database.execute(setting)
            yield database
    except duckdb.Error as error:
        raise SinkUnavailable(f"a Parquet file cannot be made ({type(error).__name__}); check the disk") from error
