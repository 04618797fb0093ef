"""The app of CocoIndex."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import cocoindex as coco
from cocoindex.connectors import localfs
from cocoindex.connectors import sqlite as target
from cocoindex.resources.file import FileLike, PatternFilePathMatcher

from _protocol import NAMES, Held  # isort: skip

LIBRARY = coco.ContextKey[target.ManagedConnection]("library")
ROOT = coco.ContextKey[Path]("folder")


@dataclass
class Note:
    """A row of the table."""

    path: Annotated[str, "primary key"]
    text: str


@coco.fn(memo=True)
async def read(file: FileLike, notes: target.TableTarget[Note]) -> None:
    """Return the row of one file."""
    notes.declare_row(row=Note(file.file_path.path.as_posix(), await file.read_text()))


@coco.fn
async def read_all() -> None:
    """Return the rows of all files."""
    schema = await target.TableSchema.from_class(Note, primary_key=["path"])
    notes = await target.mount_table_target(LIBRARY, "notes", schema)
    wanted = PatternFilePathMatcher([f"**/*{suffix}" for suffix in NAMES])
    await coco.mount_each(read, localfs.walk_dir(ROOT, recursive=True, path_matcher=wanted).items(), notes)


def update(state: Path, folder: Path) -> Held:
    """Ingest the folder."""

    @coco.lifespan
    def lifespan(builder: coco.EnvironmentBuilder):
        builder.settings.db_path = state / "state.db"
        builder.provide(ROOT, folder)
        builder.provide_with(LIBRARY, target.managed_connection(state / "notes.db", load_vec=False))
        yield

    coco.App("Notes", read_all).update_blocking()
    texts = {}
    with sqlite3.connect(state / "notes.db") as library:
        for path, text in library.execute("SELECT path, text FROM notes"):
            texts.setdefault(path, []).append(text)
    return Held(texts)
