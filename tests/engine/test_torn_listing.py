"""Files and folders that move while a sync lists them: each stays in the library once, with its document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from catchment.ledger import Ledger
from connectors.folders import diff
from connectors.folders.scan import FolderListing, Lister, ScannedFolder
from tests.engine.whole import Engine, Shelf

Act = Callable[[Path], object]
Script = dict[str, Act]
"""The operations on the tree, each by the folder that is listed just before it. Folders are listed in order of name."""

NAMES = [f"f{folder}/{name}" for folder in range(5) for name in ("a.md", "b.md", "c.md")]


def move(old: str, new: str) -> Act:
    return lambda root: (root / old).rename(root / new)


def swap(one: str, other: str) -> Act:
    return several(move(one, "f2/kept aside"), move(other, one), move("f2/kept aside", other))


def several(*acts: Act) -> Act:
    return lambda root: [act(root) for act in acts]


def write(name: str, text: str) -> Act:
    return lambda root: (root / name).write_text(text)


def remove(name: str) -> Act:
    return lambda root: (root / name).unlink()


def link(name: str, other: str) -> Act:
    return lambda root: (root / other).hardlink_to(root / name)


SCRIPTS: dict[str, Script] = {
    "into a listed folder": {"f2": move("f4/a.md", "f0/z.md")},
    "into an unlisted folder": {"f2": move("f0/a.md", "f4/z.md")},
    "into an unlisted folder and back": {"f2": move("f0/a.md", "f4/z.md"), "f4": move("f4/z.md", "f0/a.md")},
    "into an unlisted folder and on to a listed one": {
        "f2": move("f0/a.md", "f4/z.md"),
        "f4": move("f4/z.md", "f1/y.md"),
    },
    "into a listed folder and on to another": {"f2": move("f4/a.md", "f0/z.md"), "f4": move("f0/z.md", "f1/y.md")},
    "between listed folders": {"f2": move("f0/a.md", "f1/z.md")},
    "within a listed folder": {"f2": move("f0/a.md", "f0/z.md")},
    "a chain through listed and unlisted folders": {
        "f2": several(move("f0/a.md", "f1/z.md"), move("f4/a.md", "f0/a.md"), move("f3/a.md", "f4/a.md"))
    },
    "a swap of a listed and an unlisted file": {"f2": swap("f0/a.md", "f4/a.md")},
    "a rotation of three files": {"f2": several(swap("f0/a.md", "f3/a.md"), swap("f3/a.md", "f4/a.md"))},
    "a listed folder renamed": {"f2": move("f0", "g")},
    "an unlisted folder renamed to an earlier name": {"f2": move("f4", "e")},
    "an unlisted folder moved into a listed one": {"f2": move("f4", "f0/inner")},
    "a listed folder moved into an unlisted one": {"f2": move("f0", "f4/inner")},
    "two folders swapped": {"f2": several(move("f0", "aside"), move("f4", "f0"), move("aside", "f4"))},
    "a folder renamed twice": {"f2": move("f4", "e"), "f3": move("e", "d")},
    "a new file in a listed folder": {"f2": write("f0/z.md", "said90000")},
    "a new file that moves on": {"f0": write("f3/z.md", "said90000"), "f3": move("f3/z.md", "f4/z.md")},
    "a deletion in a listed folder": {"f2": remove("f0/a.md")},
    "a deletion and a move": {"f2": several(remove("f0/a.md"), move("f0/b.md", "f4/z.md"))},
}


SECOND_NAMES: dict[str, Script] = {
    "of a listed file": {"f2": link("f0/a.md", "f4/z.md")},
    "of an unlisted file": {"f2": link("f4/a.md", "f0/z.md")},
    "that moves on": {"f0": link("f0/a.md", "f1/z.md"), "f2": move("f1/z.md", "f4/z.md")},
    "whose first name goes": {"f0": link("f0/a.md", "f1/z.md"), "f2": remove("f0/a.md")},
}


class Tree:
    """A source folder, and operations that take place while it is listed."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = engine
        self.root = Path(engine.disks["papers"].root)
        self._script: Script = {}
        listed = Lister.list

        def list_and_disturb(lister: Lister, folder: ScannedFolder) -> FolderListing:
            listing = listed(lister, folder)
            if act := self._script.pop(folder.container, None):
                act(self.root)
            return listing

        monkeypatch.setattr(Lister, "list", list_and_disturb)
        for number, name in enumerate(NAMES):
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(f"said{number:05}")

    def sync(self, script: Script | None = None) -> dict[str, int]:
        self._script = dict(script or {})
        summary = self.engine.sync("papers")
        assert not self._script
        return summary

    @property
    def shelf(self) -> Shelf:
        return self.engine.shelf("papers")

    def texts(self) -> dict[str, str]:
        """Return the text of each file on the disk."""
        return {str(path.relative_to(self.root)): path.read_text() for path in self.root.rglob("*.md")}

    def documents(self) -> dict[str, str]:
        """Return the text of each document in the library."""
        return {name: words[0] for name, (_, words) in self.shelf.items()}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    Ledger.open(f"sqlite:///{tmp_path}/empty.db").close()
    engine = Engine(tmp_path, tmp_path / "empty.db")
    yield Tree(engine, monkeypatch)
    assert engine.ledger.check(deep=True) == []
    engine.close()


@pytest.mark.full
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_change_during_a_listing_keeps_every_document(tree: Tree, script: Script) -> None:
    tree.sync()
    numbers = {words: number for number, words in tree.shelf.values()}
    before = tree.texts()
    summary = tree.sync(script)
    after = tree.texts()
    assert tree.documents() == after
    kept = {words for number, words in tree.shelf.values() if numbers.get(words) == number}
    assert kept == {(text,) for text in after.values()} & numbers.keys()
    assert summary["deleted"] == len(set(before.values()) - set(after.values()))
    assert tree.sync()["listed"] == 0


@pytest.mark.full
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_change_during_the_first_listing_leaves_each_file_once(tree: Tree, script: Script) -> None:
    before = tree.texts()
    summary = tree.sync(script)
    assert tree.documents() == tree.texts()
    assert summary["deleted"] == len(set(before.values()) - set(tree.texts().values()))
    assert tree.sync()["listed"] == 0


@pytest.mark.parametrize("script", SECOND_NAMES.values(), ids=SECOND_NAMES)
def test_second_name_given_during_a_listing_is_a_second_item(tree: Tree, script: Script) -> None:
    tree.sync()
    number = tree.shelf["f0/a.md"][0]
    assert tree.sync(script)["deleted"] == 0
    # A second name changes the times of a file, but not of its folder.
    assert tree.sync()["deleted"] == 0
    assert tree.documents() == tree.texts()
    assert number in {other for other, _ in tree.shelf.values()}


def test_folder_that_keeps_changing_deletes_after_an_hour(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff, "_PAUSES", (0, 0, 0, 0))
    tree.sync()
    remove("f0/b.md")(tree.root)

    def keep_changing(root: Path) -> None:
        write("f0/.lock", "")(root)
        remove("f0/.lock")(root)
        tree._script["f0"] = keep_changing

    def sync() -> int:
        tree._script["f0"] = keep_changing
        return tree.engine.sync("papers")["deleted"]

    assert sync() == 0
    tree.engine.forward(timedelta(minutes=50))
    assert sync() == 0
    tree.engine.forward(timedelta(minutes=20))
    assert sync() == 1
    remove("f0/c.md")(tree.root)
    assert sync() == 0
    tree._script.clear()
    assert tree.sync()["deleted"] == 1
    assert tree.documents() == tree.texts()


def test_file_that_outruns_the_listing_is_not_deleted(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff, "_PAUSES", (0, 0, 0, 0))
    tree.sync()
    before = tree.shelf
    (tree.root / "f0/a.md").rename(tree.root / "f3/fleeing.md")
    listed = Lister.list

    def list_after_it_fled(lister: Lister, folder: ScannedFolder) -> FolderListing:
        if (here := Path(folder.path) / "fleeing.md").exists():
            here.rename(tree.root / ("f2" if folder.container == "f3" else "f3") / "fleeing.md")
        return listed(lister, folder)

    with monkeypatch.context() as fleeing:
        fleeing.setattr(Lister, "list", list_after_it_fled)
        assert tree.sync()["deleted"] == 0
    assert tree.shelf == before
    assert (tree.sync()["moved"], tree.documents()) == (1, tree.texts())


def test_deleted_file_that_returns_elsewhere_keeps_its_document(tree: Tree, tmp_path: Path) -> None:
    tree.sync()
    before = tree.shelf
    (tree.root / "f0/a.md").rename(tmp_path / "away.md")
    write("f1/new.md", "said90000")(tree.root)
    assert tree.sync()["deleted"] == 1
    (tree.root / "f1/new.md").rename(tree.root / "f0/a.md")
    (tmp_path / "away.md").rename(tree.root / "f4/back.md")
    summary = tree.sync()
    assert (summary["moved"], summary["deleted"], summary["jobs"]) == (2, 0, 0)
    assert tree.documents() == tree.texts()
    assert tree.shelf["f4/back.md"] == before["f0/a.md"]


def test_file_that_returns_after_its_document_went_to_a_copy_is_read(tree: Tree, tmp_path: Path) -> None:
    tree.sync()
    number = tree.shelf["f0/a.md"][0]
    write("f1/copy.md", (tree.root / "f0/a.md").read_text())(tree.root)
    (tree.root / "f0/a.md").rename(tmp_path / "away.md")
    tree.sync()
    assert tree.shelf["f1/copy.md"][0] == number
    (tmp_path / "away.md").rename(tree.root / "f4/back.md")
    tree.sync()
    assert tree.documents() == tree.texts()
