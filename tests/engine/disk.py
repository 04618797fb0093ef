"""A source folder on a real disk, the operations that can change it, and the expected library contents."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import ClassVar, NamedTuple

import orjson

from catchment.errors import AccessDenied, Reason, TimedOut
from catchment.model import Item, RawContent
from connectors.folders.file import FileEntry, identity
from connectors.local_files import LocalFiles, LocalFilesSettings
from connectors.obsidian import Obsidian, ObsidianSettings

PLACES = ("a.md", "b.md", "A.md", "sub/a.md", "sub/b.md", "deep/sub/c.md", "board.canvas", "sub/board.canvas")
FOLDERS = ("sub", "deep", "deep/sub", "other", "deep/other")
MANY = 12
"""Exceeds the number of deletions applied without confirmation."""
_CLOSED = 0o100
"""A mode bit that marks a file as unreadable. File permissions do not stop root."""

Words = tuple[str, ...]


def words_of(text: str) -> Words:
    """Return the words that identify a text; no two generated texts share them."""
    return tuple(re.findall(r"said\d{5}", text))


class Print(NamedTuple):
    """The observed state of a file.

    `who` survives a rename, `version` changes with every edit; `why` is the reason if the file cannot be read.
    """

    who: str
    version: str
    words: Words
    why: Reason | None


class Fickle(LocalFiles):
    """A folder with unreadable files and files that are temporarily unavailable."""

    settings: ClassVar = LocalFilesSettings
    stormy: frozenset[str] = frozenset()

    def fetch(self, item: Item) -> RawContent:
        _refuse(self._tree.root, item, self.stormy)
        return super().fetch(item)


class FickleVault(Obsidian):
    """A vault with the failures of `Fickle`."""

    stormy: frozenset[str] = frozenset()

    def fetch(self, item: Item) -> RawContent:
        _refuse(self._tree.root, item, self.stormy)
        return super().fetch(item)


def _refuse(root: Path, item: Item, stormy: frozenset[str]) -> None:
    path = root / item.locator
    if path.exists() and path.stat().st_mode & _CLOSED:
        raise AccessDenied("it may not be read")
    if item.locator in stormy:
        raise TimedOut("not just now")


class Disk:
    """The folder of one source. `touched` holds the paths changed since they were last reported."""

    _words = 0

    def __init__(self, root: Path, *, vault: bool) -> None:
        self.root = root
        self.which = 0
        """The index of the mounted disk."""
        self.touched: set[str] = set()
        self.untold = False
        """Whether changes may have happened that `touched` lacks."""
        self.stormy: frozenset[str] = frozenset()
        self._vault = vault
        self._was = self._count = 0
        self._moved = root, root
        self._make_root()

    @property
    def connector(self) -> Fickle | FickleVault:
        vault, files = ObsidianSettings(root=self.root), LocalFilesSettings(root=self.root)
        made = FickleVault(vault) if self._vault else Fickle(files)
        made.stormy = self.stormy
        return made

    def files(self) -> dict[str, Print]:
        """Return the state of every file by path."""
        if not self.root.exists():
            return {}
        paths = (Path(folder, name) for folder, _, names in os.walk(self.root) for name in names)
        return {str(path.relative_to(self.root)): _seen(path) for path in sorted(paths)}

    # User actions

    def write(self, place: str, _: str) -> None:
        """Create a note, or save an existing note as an editor does, by replacing the file."""
        path = self._path(place)
        new = path.with_name(f".{path.name}.new")
        new.write_text(self._text(place))
        new.replace(path)

    def edit(self, place: str, _: str) -> None:
        if (path := self._path(place)).exists():
            path.write_text(self._text(place))

    def append(self, place: str, _: str) -> None:
        path = self._path(place)
        if path.exists() and path.suffix == ".md":
            with path.open("a") as file:
                file.write(self._text(place))

    def keep_size_and_time(self, place: str, _: str) -> None:
        """Edit a file so that only the inode change time differs."""
        if (path := self._path(place)).exists():
            before, text = path.stat(), path.read_text()
            for word in words_of(text):
                text = text.replace(word, self._word())
            path.write_text(text)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def break_(self, place: str, _: str) -> None:
        """Break a canvas so that its parser fails."""
        if (path := self._path(place)).exists():
            path.write_text(f'{{"nodes": {self._word()}\n')

    def close(self, place: str, _: str) -> None:
        if (path := self._path(place)).exists():
            path.chmod(path.stat().st_mode ^ _CLOSED)

    def delete(self, place: str, _: str) -> None:
        self._path(place).unlink(missing_ok=True)

    def add_again(self, place: str, _: str) -> None:
        """Delete the file and recreate it with the same text."""
        if (path := self._path(place)).exists():
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(data)

    def rename(self, place: str, other: str) -> None:
        if (path := self._path(place)).exists() and place != other:
            path.replace(self._path(other))

    def swap(self, place: str, other: str) -> None:
        one, two = self._path(place), self._path(other)
        if one.exists() and two.exists() and place != other:
            aside = one.with_name(".aside")
            one.replace(aside)
            two.replace(one)
            aside.replace(two)

    def copy(self, place: str, other: str) -> None:
        if (path := self._path(place)).exists() and place != other:
            shutil.copyfile(path, self._path(other))

    def move_folder(self, place: str, other: str) -> None:
        old, new = self.root / Path(place).parent, self._path(other).with_name("other")
        if old != self.root and old.is_dir() and old not in new.parents and not new.exists():
            self.touched |= {str(old.relative_to(self.root)), str(new.relative_to(self.root))}
            old.rename(new)
            self._moved = old, new

    def move_folder_back(self) -> None:
        """Revert the last folder move; the contained files show no trace of it."""
        old, new = self._moved
        if new.is_dir() and not old.exists() and old.parent.is_dir():
            self.touched |= {str(old.relative_to(self.root)), str(new.relative_to(self.root))}
            new.rename(old)

    def write_many(self, _place: str, _: str) -> None:
        for number in range(MANY):
            self.write(f"many/{number}.md", "")

    def delete_many(self, _place: str, _: str) -> None:
        if (path := self._path("many/0.md").parent).exists():
            shutil.rmtree(path)

    # Disk failures

    @property
    def is_mounted(self) -> bool:
        return self.root.exists()

    @property
    def is_away(self) -> bool:
        return self._away.exists()

    def unmount(self) -> None:
        self.untold = True
        self.root.rename(self._away)

    def put_another(self) -> None:
        """Mount an empty folder in place of the current folder."""
        self.unmount()
        self._make_root()
        self._number()

    def put_copy(self) -> None:
        """Mount another disk with the same files."""
        self.unmount()
        shutil.copytree(self._away, self.root)
        shutil.rmtree(self._away)
        self._number()

    def bring_back(self) -> None:
        if self._away.exists():
            self.untold = True
            shutil.rmtree(self.root, ignore_errors=True)
            self._away.rename(self.root)
            self.which = self._was

    def _number(self) -> None:
        self._count += 1
        self._was, self.which = self.which, self._count

    @property
    def _away(self) -> Path:
        return self.root.with_name(f"{self.root.name} away")

    def _make_root(self) -> None:
        self.root.mkdir()
        if self._vault:
            (self.root / ".obsidian").mkdir()

    def _path(self, place: str) -> Path:
        self.touched.add(place)
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @classmethod
    def _word(cls) -> str:
        Disk._words += 1
        return f"said{Disk._words:05}"

    def _text(self, place: str) -> str:
        card = {"nodes": [{"id": "1", "type": "text", "text": self._word()}], "edges": []}
        return orjson.dumps(card).decode() if place.endswith(".canvas") else f"Somebody {self._word()} something.\n"


def _seen(path: Path) -> Print:
    entry, text = FileEntry.of(path.name, path.stat()), path.read_text()
    why = None
    if path.suffix == ".canvas" and not text.startswith('{"nodes":['):
        why = Reason.PARSE_ERROR
    if entry.mode & _CLOSED:
        why = Reason.PERMISSION_DENIED
    return Print(identity(entry, str(path)), entry.fingerprint, words_of(text), why)
