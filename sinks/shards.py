"""A folder of JSON Lines or Parquet: files with the documents of a thousand IDs each, so that a change rewrites little."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import orjson

from catchment.errors import Refused
from catchment.model import DocumentCopy
from catchment.runtime import atomic_files
from sinks.folder import MARK, prepare, read_stamp, translated, write_stamp

_IDS = 1_000
"""Documents of one file at most."""
_BEGINNING = re.compile(rb'\{"id":(\d+),"version":"(\w+)"')


class JsonLines:
    """A folder of JSON Lines."""

    batch = _IDS
    wants_vectors = False
    is_folder = True
    _ending = "jsonl"

    def __init__(self, place: str, _password: str = "", *, create: bool = False) -> None:
        self._root = Path(place)
        with translated():
            prepare(self._root, create=create)

    def close(self) -> None:
        return

    def write(self, changed: Sequence[DocumentCopy], removed: Collection[int]) -> None:
        shards: defaultdict[int, dict[int, bytes | None]] = defaultdict(dict)
        for number in removed:
            shards[number // _IDS][number] = None
        for document in changed:
            shards[document.id // _IDS][document.id] = line(document)
        with translated():
            for shard, changes in shards.items():
                self._rewrite(self._root / f"{shard:07}.{self._ending}", changes)

    def versions(self, after: int, last: int) -> Mapping[int, str]:
        versions = dict[int, str]()
        with translated():
            for path in self._root.glob(f"*.{self._ending}"):
                if path.stem.isdigit() and after // _IDS <= int(path.stem) <= last // _IDS:
                    versions |= {number: version for number, version in self._read(path) if after < number <= last}
        return versions

    def mark(self, stamp: str) -> None:
        write_stamp(self._root, f"{stamp} {self._state()}")

    def stamp(self) -> str | None:
        stamp, _, state = (read_stamp(self._root) or "").partition(" ")
        return stamp if state == self._state() else f"{stamp} altered"

    def _state(self) -> str:
        """Return a digest of the names, sizes and times of the files, which reveals changes from outside."""
        with translated():
            files = [(path.name, path.lstat()) for path in sorted(self._root.glob(f"*.{self._ending}"))]
        facts = [(name, status.st_size, status.st_mtime_ns) for name, status in files]
        return blake2b(orjson.dumps(facts), digest_size=8).hexdigest()

    def _read(self, path: Path) -> Iterator[tuple[int, str]]:
        """Yield the ID and version of each document of a file."""
        yield from ((number, version) for number, version, _ in _lines(path))

    def _rewrite(self, path: Path, changes: Mapping[int, bytes | None]) -> None:
        lines: dict[int, bytes | None] = {number: text for number, _, text in _lines(path)}
        lines |= changes
        fresh = unlinked(self._root / MARK / path.name)
        is_empty = True
        with own_file(fresh) as file:
            for _, text in sorted(lines.items()):
                if text is not None:
                    file.write(text)
                    is_empty = False
        if is_empty:
            path.unlink(missing_ok=True)
        else:
            put(fresh, path)


@contextmanager
def writing_file(path: Path) -> Iterator[JsonFile]:
    """Write one new file of JSON Lines, which has its name when it is complete. Raises Refused if it exists."""
    if path.exists():
        raise Refused(f"{path.name}: exists already; choose another name")
    with translated():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = atomic_files.unfinished(path)
        try:
            with own_file(fresh) as file:
                yield JsonFile(file)
            atomic_files.put(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)


class JsonFile:
    """A new file of JSON Lines, which receives each document once."""

    batch = _IDS
    wants_vectors = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.longest = 0
        """Bytes of its longest line."""

    def write(self, changed: Sequence[DocumentCopy], _removed: Collection[int] = ()) -> None:
        lines = [*map(line, changed)]
        self.longest = max([self.longest, *map(len, lines)])
        self._file.writelines(lines)

    def close(self) -> None:
        self._file.close()


def line(document: DocumentCopy) -> bytes:
    """Return a document as a line of JSON. Its keys and their order are documented in docs/sinks.md."""
    fields = {
        **document.columns(),
        "links": [link._asdict() for link in document.links],
        "chunks": [chunk._asdict() for chunk in document.chunks],
    }
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z, default=str)


def unlinked(path: Path) -> Path:
    """Remove a temporary file of a killed process, or a link in its place, and return the path."""
    path.unlink(missing_ok=True)
    return path


def own_file(path: Path) -> BinaryIO:
    """Open a new file that others cannot read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def put(fresh: Path, path: Path) -> None:
    """Give a new file its name, in place of another one, whose mode it gets, or of a link."""
    if is_own(path):
        fresh.chmod(path.stat().st_mode & 0o777)
    atomic_files.put(fresh, path)


def is_own(path: Path) -> bool:
    """Return whether a path is a file, and no link to one."""
    return path.is_file() and not path.is_symlink()


def _lines(path: Path) -> Iterator[tuple[int, str, bytes]]:
    """Yield ID, version and text of each line. Lines that somebody damaged are omitted, so that they are written again."""
    if is_own(path):
        with path.open("rb") as file:
            for text in file:
                if match := _BEGINNING.match(text):
                    yield int(match[1]), match[2].decode(), text
