"""A folder sink under any sequence of changes, compared with the documents; files of other programs do not change."""

from __future__ import annotations

import itertools
import os
import random
import sys
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import pytest

import sinks
from catchment.contracts import Sink
from catchment.errors import DocumentRefused, SinkUnavailable
from catchment.model import DocumentCopy
from sinks.markdown import alternative, file_name, folded, markdown

_NOTE = DocumentCopy(
    1, "v", "s", "obsidian", "a.md", "A", "text/markdown", None, None, None, None, "Text", {}, {}, (), (), (), ()
)
_FILES = ("a", "A", "b", "B", "n", "N", "n (3)", "N (4)", "n (5-2)", "README", "é", "fi", "ﬁ", "x" * 300, "..", "CON ")
_PARTS = (*_FILES, unicodedata.normalize("NFD", "é"), "a.md", "README.md", "b.MD")
_EVENTS = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.utime", "os.rmdir", "sqlite3.connect"})


class _Killed(BaseException):
    """Stands for the end of the process."""


class _Bomb:
    """Ends the work at the operation with a number."""

    left: int | None = None

    def __call__(self, event: str, _arguments: object) -> None:
        if self.left is not None and event in _EVENTS:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise _Killed


_BOMB = _Bomb()
sys.addaudithook(_BOMB)


class _Model:
    """The documents, the files that other programs put into the folder, and the sink between them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.root, self.outside = folder / "sink", folder / "outside"
        self.random = random.Random(seed)
        self.documents = dict[int, DocumentCopy]()
        self.refused = set[int]()
        self.foreign = dict[str, str]()
        """Content of the files of others, by name; the target of a link after `->`."""
        self.outside.mkdir()
        (self.outside / "a.md").write_text("outside")
        self.stamp = ""
        self.versions, self.stamps = itertools.count(), itertools.count()
        with sinks.opened("folder", str(self.root), create=True) as sink:
            self._mark(sink)

    # Changes of documents

    def add(self) -> None:
        number = max(self.documents, default=0) + 1
        self._send([self._document(number, self._item())])

    def rename(self) -> None:
        chosen = self._some(4)
        self._send([self._document(number, self._item()) for number in chosen])

    def rotate(self) -> None:
        """Each of some documents gets the name of the next."""
        chosen = self._some(5)
        items = [self.documents[number].item for number in chosen]
        self._send([self._document(number, item) for number, item in zip(chosen, items[1:] + items[:1], strict=True)])

    def fold(self) -> None:
        """A file becomes a folder, or a folder a file."""
        for number in self._some(2):
            item = self.documents[number].item
            self._send([self._document(number, str(Path(item).parent) if "/" in item else f"{item}/b")])

    def remove(self) -> None:
        removed = self._some(3)
        for number in removed:
            del self.documents[number]
        self.refused -= {*removed}
        self._deliver([], removed)

    # Acts of others at the place

    def put(self) -> None:
        name, content = self._foreign_name(), "foreign"
        if name is not None:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            if self.random.random() < 0.4:
                target = self.outside / self.random.choice(["a.md", ".", "nothing.md"])
                (self.root / name).symlink_to(target)
                content = f"->{target}"
            else:
                (self.root / name).write_text(content)
            self.foreign[name] = content
            self._compare()

    def take_away(self) -> None:
        if self.foreign:
            name = self.random.choice(sorted(self.foreign))
            (self.root / name).unlink()
            del self.foreign[name]
            self._send([])

    def damage(self) -> None:
        """Change, delete, or replace the files of documents by links and folders."""
        for number in self._some(2):
            path = self.root / self.expected().get(number, "none")
            if not path.is_file() or path.is_symlink():
                continue
            match self.random.randrange(4):
                case 0:
                    path.write_text("changed")
                case 1:
                    path.unlink()
                case 2:
                    path.unlink()
                    path.symlink_to(self.outside / "a.md")
                case _:
                    path.unlink()
                    path.mkdir()
                    (path / "own").write_text("foreign")
                    self.foreign[f"{path.relative_to(self.root)}/own"] = "foreign"
        self._compare()

    def lose_index(self) -> None:
        index = self.root / ".catchment" / "index.db"
        match self.random.randrange(3):
            case 0:
                index.unlink()
            case 1:
                index.write_bytes(b"no database " * 500)
            case _:
                index.unlink()
                index.symlink_to(self.outside / "a.md")
        self._send([])

    def plant(self) -> None:
        """Put links where the sink writes for a moment."""
        for name in ("1.unfinished", "2.unfinished", ".stamp~x"):
            link = self.root / ".catchment" / name
            if not link.is_symlink():
                link.symlink_to(self.outside / "a.md")
        self.rename()

    # The engine

    def _send(self, changed: Collection[DocumentCopy]) -> None:
        self.documents |= {document.id: document for document in changed}
        self._deliver([document.id for document in changed], [])

    def _deliver(self, changed: Collection[int], removed: Collection[int]) -> None:
        """Deliver, with a kill at any operation, and again after it. Documents that were refused are offered again."""
        sent = {*changed, *self.refused}
        if self.random.random() < 0.5:
            _BOMB.left = self.random.randrange(60)
        try:
            self._attempt(sent, removed)
        except _Killed:
            self._attempt(sent, removed)
        finally:
            _BOMB.left = None

    def _attempt(self, changed: Collection[int], removed: Collection[int]) -> None:
        try:
            with sinks.opened("folder", str(self.root)) as sink:
                if sink.stamp() != self.stamp:
                    self._make_equal(sink)
                self._write(sink, changed, removed)
                self._mark(sink)
        except SinkUnavailable:
            with sinks.opened("folder", str(self.root)) as sink:
                self._make_equal(sink)
                self._write(sink, changed, removed)
                self._mark(sink)

    def _compare(self) -> None:
        with sinks.opened("folder", str(self.root)) as sink:
            self._make_equal(sink)
            self._mark(sink)

    def _make_equal(self, sink: Sink) -> None:
        there = sink.versions(0, 1 << 62)
        here = {number: document.version for number, document in self.documents.items()}
        differing = [number for number in here if there.get(number) != here[number]]
        surplus = [number for number in there if number not in here]
        for start in range(0, len(differing), 3):
            self._write(sink, differing[start : start + 3], [])
        self._write(sink, [], surplus)

    def _write(self, sink: Sink, changed: Collection[int], removed: Collection[int]) -> None:
        batch = [self.documents[number] for number in changed]
        self.refused -= {*changed}
        try:
            sink.write(batch, removed)
        except DocumentRefused:
            sink.write([], [*removed, *changed])
            for document in batch:
                try:
                    sink.write([document], [])
                except DocumentRefused:
                    self.refused.add(document.id)
                    sink.write([], [document.id])

    def _mark(self, sink: Sink) -> None:
        stamp = f"0-1-{next(self.stamps)}"
        sink.mark(stamp)
        self.stamp = stamp

    # The files that must be there

    def expected(self) -> dict[int, str]:
        """Return the name of each document: the names that all want most first, of those the oldest."""
        names, taken = dict[int, str](), set[str]()
        for rank in range(4):
            for number, document in sorted(self.documents.items()):
                name = alternative(file_name(document), number, rank)
                is_reachable = not any(str(parent) in self.foreign for parent in Path(name).parents)
                is_free = not (self.root / name).is_dir() and name not in self.foreign
                if number not in names and is_reachable and is_free and folded(name) not in taken:
                    names[number] = name
                    taken.add(folded(name))
        return names

    def check(self) -> None:
        names = self.expected()
        wanted = {name: markdown(self.documents[number]).decode() for number, name in names.items()}
        assert self._files() == wanted | self.foreign
        assert self.refused == self.documents.keys() - names.keys()
        assert {path.name: path.read_text() for path in self.outside.iterdir()} == {"a.md": "outside"}
        with sinks.opened("folder", str(self.root)) as sink:
            assert sink.versions(0, 1 << 62) == {number: self.documents[number].version for number in names}
            assert sink.stamp() == self.stamp or self.stamp == ""

    def _files(self) -> dict[str, str]:
        found = {}
        for path in self.root.rglob("*"):
            name = str(path.relative_to(self.root))
            if name.startswith(".catchment"):
                continue
            if path.is_symlink():
                found[name] = f"->{path.readlink()}"
            elif path.is_file():
                found[name] = path.read_text()
        return found

    # Choices

    def _document(self, number: int, item: str) -> DocumentCopy:
        return replace(_NOTE, id=number, item=item, version=f"{next(self.versions):016}", text=f"Text {number}")

    def _item(self) -> str:
        folders = [self.random.choice(_PARTS) for _ in range(self.random.choice([0, 0, 0, 1, 1, 2]))]
        return "/".join([*folders, self.random.choice(_PARTS) + self.random.choice(["", ".md"])])

    def _some(self, most: int) -> list[int]:
        return self.random.sample(sorted(self.documents), min(most, len(self.documents)))

    def _foreign_name(self) -> str | None:
        """Return a free name that documents may want, or a free name in a folder of theirs."""
        name = alternative(
            file_name(self._document(0, self._item())), self.random.randrange(1, 20), self.random.randrange(3)
        )
        if self.random.random() < 0.3:
            name = str(Path(name).parent / self.random.choice(["new", "a.md_", "a", "b"]))
        path = self.root / name
        inside = [self.root / parent for parent in Path(name).parents]
        is_free = not os.path.lexists(path) and all(not os.path.lexists(each) or each.is_dir() for each in inside)
        return name if is_free and not any(each.is_symlink() for each in inside) else None


@pytest.mark.parametrize("seed", range(12))
def test_folder_equals_the_documents_after_any_sequence(tmp_path: Path, seed: int) -> None:
    model = _Model(tmp_path, seed)
    for _ in range(8):
        model.add()
    acts: list[Callable[[], None]] = [
        model.add, model.rename, model.rotate, model.fold, model.remove, model.put, model.take_away, model.damage,
        model.lose_index, model.plant,
    ]  # fmt: skip
    for _ in range(60):
        model.random.choice(acts)()
        model.check()
