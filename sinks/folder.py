"""A folder of Markdown files, one for each document, in a folder for each source.

Files are named as people know the documents: a file of a folder or vault by its path, others by date and title. The database
`.catchment/index.db` has the file of each document, so that a renamed document leaves no file behind, and documents with the
same name do not overwrite each other. A kill between its two transactions leaves names that the next `write` uses.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from catchment.errors import DocumentRefused, Refused, SinkUnavailable
from catchment.model import DocumentCopy, EntityKind, LinkKind
from catchment.runtime import atomic_files

MARK = ".catchment"
"""A folder without it is not a sink: its disk may be missing."""
_IGNORE = ".catchmentignore"
"""A source of files above would read the copies, and have them copied again, endlessly."""
_INDEX = "index.db"
_STAMP = "stamp"
_TABLES = """
    CREATE TABLE IF NOT EXISTS files (id INTEGER PRIMARY KEY, version TEXT NOT NULL, name TEXT NOT NULL,
        folded TEXT NOT NULL UNIQUE, size INTEGER, modified INTEGER);
    CREATE TABLE IF NOT EXISTS outdated (name TEXT PRIMARY KEY);
"""
_REFUSED_NAMES = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]+')
_LONGEST = 180
"""Bytes of a name. Systems allow 255, and temporary names are longer."""
_KEY = re.compile(r"[A-Za-z_][\w-]*\Z", re.ASCII)
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML does not allow within quotes, and JSON does."""
_BAD_NAMES = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
_FEW = 20
_FILES = ("local_files", "obsidian")
_GIVEN = ("created", "date", "date created", "created_at", "creation date")


class Folder:
    """A folder with a Markdown file for each document."""

    batch = 500
    wants_vectors = False

    def __init__(self, place: str, _password: str = "", *, create: bool = False) -> None:
        self._root = Path(place)
        with translated():
            prepare(self._root, create=create)
            self._index = sqlite3.connect(
                self._root / MARK / _INDEX, timeout=60, isolation_level=None, check_same_thread=False
            )
            self._index.executescript(_TABLES)

    def close(self) -> None:
        self._index.close()

    def write(self, changed: Sequence[DocumentCopy], removed: Collection[int]) -> None:
        with translated():
            with self._transaction():
                for number in removed:
                    self._abandon(number)
                names = {document.id: self._named(document) for document in changed}
            written = [self._put(document, names[document.id], is_alone=len(changed) <= _FEW) for document in changed]
            if len(changed) > _FEW:
                os.sync()
            with self._transaction():
                self._index.executemany("UPDATE files SET version = ?, size = ?, modified = ? WHERE id = ?", written)
                self._remove_outdated()

    def versions(self, after: int, last: int) -> Mapping[int, str]:
        with translated():
            rows = self._index.execute(
                "SELECT id, version, name, size, modified FROM files WHERE id > ? AND id <= ?", (after, last)
            ).fetchall()
            return {row[0]: row[1] if self._is_as_written(*row[2:]) else "altered" for row in rows}

    def mark(self, stamp: str) -> None:
        write_stamp(self._root, stamp)

    def stamp(self) -> str | None:
        return read_stamp(self._root)

    def _is_as_written(self, name: str, size: int | None, modified: int | None) -> bool:
        try:
            status = (self._root / name).stat()
        except FileNotFoundError:
            return False
        return (status.st_size, status.st_mtime_ns) == (size, modified)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._index.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._index.execute("ROLLBACK")
            raise
        self._index.execute("COMMIT")

    def _abandon(self, number: int) -> None:
        self._index.execute("INSERT OR IGNORE INTO outdated SELECT name FROM files WHERE id = ?", (number,))
        self._index.execute("DELETE FROM files WHERE id = ?", (number,))

    def _named(self, document: DocumentCopy) -> str:
        """Reserve a name for a document, and note its previous one to be removed."""
        wanted = file_name(document)
        row = self._index.execute("SELECT name FROM files WHERE id = ?", (document.id,)).fetchone()
        numbered = f"{wanted.removesuffix('.md')} ({document.id}).md"
        for name in (wanted, numbered):
            if row is not None and row[0] == name:
                return name
            taken = self._index.execute("SELECT id FROM files WHERE folded = ?", (_folded(name),)).fetchone()
            if taken is None or taken[0] == document.id:
                break
        self._abandon(document.id)
        values = (document.id, name, _folded(name))
        self._index.execute("INSERT INTO files (id, version, name, folded) VALUES (?, '', ?, ?)", values)
        return name

    def _remove_outdated(self) -> None:
        for (name,) in self._index.execute("SELECT name FROM outdated").fetchall():
            used = self._index.execute("SELECT name FROM files WHERE folded = ?", (_folded(name),)).fetchone()
            # On a disk that ignores case, the file of the new name.
            if used is None or not _is_same(self._root / used[0], self._root / name):
                with suppress(FileNotFoundError):
                    (self._root / name).unlink()
                _remove_empty(self._root / name, self._root)
        self._index.execute("DELETE FROM outdated")

    def _put(self, document: DocumentCopy, name: str, *, is_alone: bool) -> tuple[str, int, int, int]:
        """Write a file atomically, and return its row. Many files reach the disk together, at the end of `write`."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._root / MARK / f"{document.id}.unfinished"
        with fresh.open("wb") as file:
            file.write(markdown(document))
        if document.modified is not None:
            moment = max(0.0, document.modified.timestamp())
            os.utime(fresh, (moment, moment))
        status = fresh.stat()
        if is_alone:
            atomic_files.put(fresh, path)
        else:
            fresh.replace(path)
        return document.version, status.st_size, status.st_mtime_ns, document.id


def prepare(root: Path, *, create: bool) -> None:
    """Check that a folder is a sink, or make one of an empty or new folder. May be repeated after a kill.

    Raises Refused if a new one has files, SinkUnavailable if the folder is no sink.
    """
    if create:
        root.mkdir(parents=True, exist_ok=True)
        if {entry.name for entry in root.iterdir()} - {MARK, _IGNORE}:
            raise Refused(f"{root.name}: the folder is not empty; choose an empty or a new one")
        shutil.rmtree(root / MARK, ignore_errors=True)
        (root / _IGNORE).write_text("*\n", encoding="utf-8")
        (root / MARK).mkdir()
    if not (root / MARK).is_dir():
        raise SinkUnavailable("the folder or its disk is missing; connect it, or remove the sink")


def write_stamp(root: Path, stamp: str) -> None:
    """Store the stamp of a folder. Raises SinkUnavailable."""
    with translated():
        atomic_files.write(root / MARK / _STAMP, stamp.encode())


def read_stamp(root: Path) -> str | None:
    """Return the stamp of a folder; None if it has none. Raises SinkUnavailable."""
    with translated(), suppress(FileNotFoundError):
        return (root / MARK / _STAMP).read_text(encoding="utf-8", errors="replace")
    return None


def release(root: Path) -> None:
    """Make a sink an ordinary folder, which a source reads."""
    (root / _IGNORE).unlink()
    shutil.rmtree(root / MARK)


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of disk and index."""
    try:
        yield
    except sqlite3.Error as error:
        raise SinkUnavailable(f"the folder's index cannot be used ({type(error).__name__}); check the disk") from error
    except OSError as error:
        if error.errno in _BAD_NAMES:
            raise DocumentRefused("its name is not possible on this disk") from error
        raise SinkUnavailable(f"the folder cannot be written: {error.strerror}; check its disk") from error


def file_name(document: DocumentCopy) -> str:
    """Return the path of a document's file below the folder, without regard to other documents."""
    folder = _cleaned(document.source)
    if document.kind in _FILES and ";PART=" not in document.item:
        *folders, name = PurePosixPath(document.item).parts
        parts = [_cleaned(part) for part in folders]
        last = _cleaned(name.removesuffix(".md"))
    else:
        moment = document.created or document.modified
        title = document.title or document.item
        parts = [f"{moment:%Y}"] if moment else []
        last = _cleaned(f"{moment:%Y-%m-%d} {title}" if moment else title)
    return "/".join([folder, *parts, f"{last}.md"])


def _cleaned(name: str) -> str:
    text = " ".join(_REFUSED_NAMES.sub(" ", name).split()).strip(" .")
    return text.encode()[:_LONGEST].decode(errors="ignore").strip(" .") or "untitled"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except FileNotFoundError:
        return False


def _remove_empty(path: Path, root: Path) -> None:
    """Remove the folders of a removed file that have become empty."""
    for folder in path.parents:
        if folder == root:
            return
        try:
            folder.rmdir()
        except OSError:
            return


def markdown(document: DocumentCopy) -> bytes:
    """Return a document as Markdown with frontmatter, which a source of files or notes reads as the same document."""
    own = document.properties
    links = [link.target for link in document.links if link.kind is not LinkKind.URL and link.target]
    fields: dict[str, Any] = {
        "title": document.title,
        "created": None if any(own.get(key) for key in _GIVEN) else _iso(document.created),
        "modified": _iso(document.modified),
        "people": document.named(EntityKind.PERSON),
        "links": list(dict.fromkeys(links)),
        "source": document.source,
        "item": document.item,
        "url": document.metadata.get("url"),
        **own,
        "tags": document.named(EntityKind.TAG),
        "tag": None,
        "catchment": document.id,
    }
    lines = [_line(key, value) for key, value in fields.items() if value or value == 0]
    return b"".join((b"---\n", *lines, b"---\n", document.text.encode()))


def _line(key: str, value: Any) -> bytes:
    name = key.encode() if _KEY.match(key) else orjson.dumps(key)
    text = orjson.dumps(value, default=str).decode()
    escaped = _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return name + b": " + escaped.encode() + b"\n"


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()
