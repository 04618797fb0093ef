"""CocoIndex to SQLite: one memoized component per file, which stores the file's chunks. No index for search.

`python cocoindex_sqlite.py FOLDER STATE` prints JSON with the number of stored files.
"""

import json
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import cocoindex as coco
from cocoindex.connectors import localfs
from cocoindex.connectors import sqlite as target
from cocoindex.ops.text import RecursiveSplitter
from cocoindex.resources.file import FileLike, PatternFilePathMatcher

FOLDER, STATE = map(Path, sys.argv[1:])
LIBRARY = coco.ContextKey[target.ManagedConnection]("library")
SPLITTER = RecursiveSplitter()


@dataclass
class Chunk:
    """A row of the table. `start` and `stop` are offsets in the file's text."""

    path: Annotated[str, "primary key"]
    start: Annotated[int, "primary key"]
    stop: int
    text: str


@coco.fn(memo=True)
async def read(file: FileLike, chunks: target.TableTarget[Chunk]) -> None:
    """Declare the chunks of one file, with Catchment's sizes."""
    path = file.file_path.path.as_posix()
    parts = SPLITTER.split(
        await file.read_text(), chunk_size=4_000, min_chunk_size=500, chunk_overlap=200, language="markdown"
    )
    for part in parts:
        chunks.declare_row(row=Chunk(path, part.start.char_offset, part.end.char_offset, part.text))


@coco.fn
async def read_all() -> None:
    """Declare the chunks of all files."""
    schema = await target.TableSchema.from_class(Chunk, primary_key=["path", "start"])
    chunks = await target.mount_table_target(LIBRARY, "chunks", schema)
    notes = localfs.walk_dir(FOLDER, recursive=True, path_matcher=PatternFilePathMatcher(["**/*.md"]))
    await coco.mount_each(read, notes.items(), chunks)


@coco.lifespan
def lifespan(builder: coco.EnvironmentBuilder):
    """Open the library."""
    builder.settings.db_path = STATE / "state.db"
    builder.provide_with(LIBRARY, target.managed_connection(STATE / "notes.db", load_vec=False))
    yield


if __name__ == "__main__":
    coco.App("Notes", read_all).update_blocking()
    with sqlite3.connect(STATE / "notes.db") as library:
        stored = library.execute("SELECT count(DISTINCT path) FROM chunks").fetchone()[0]
    print(json.dumps({"stored": stored}))
