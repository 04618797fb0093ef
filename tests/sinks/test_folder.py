"""Names of files in a folder sink, and documents that are exported and read again."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

import sinks
from catchment.contracts import Connector
from catchment.errors import DocumentRefused, Refused
from catchment.ledger import LAST_ID, Ledger
from catchment.model import DocumentCopy, EntityKind, LinkKind, Priority
from catchment.settings import Home, Policy
from catchment.sync.source_sync import open_sync
from catchment.sync.supply import export
from connectors.local_files import LocalFiles
from connectors.obsidian import Obsidian

_VAULT = Path(__file__).parents[2] / "examples" / "vault"
MAIL = DocumentCopy(
    1, "v", "mail", "imap", "INBOX;UID=7", "Re: a/b?", "message/rfc822", None, None, datetime(2024, 3, 1, tzinfo=UTC),
    None, "Hello", {}, {}, (), (), (), ()
)  # fmt: skip
NOTE = replace(MAIL, kind="obsidian", source="notes", item="Plans/Bridge.md", title="Bridge")


def _files(root: Path) -> set[str]:
    return {str(file.relative_to(root)) for file in root.rglob("*.md")}


def _read(home: Home, connector: Connector, name: str) -> None:
    with open_sync(home, connector, name, Policy(), Priority.NORMAL) as sync:
        sync.discover()
        while (token := sync.claim(250)) is not None:
            sync.process(token)
        sync.finish("completed")


def test_names_are_those_that_people_know(tmp_path: Path) -> None:
    with sinks.opened("folder", str(tmp_path / "f"), create=True) as folder:
        folder.write([MAIL, replace(NOTE, id=2), replace(NOTE, id=3, item="report.pdf")], [])
        assert _files(tmp_path / "f") == {
            "mail/2024/2024-03-01 Re a b.md",
            "notes/Plans/Bridge.md",
            "notes/report.pdf.md",
        }
        folder.write([replace(NOTE, id=2, item="Old/Viaduct.md")], [1])
    assert _files(tmp_path / "f") == {"notes/Old/Viaduct.md", "notes/report.pdf.md"}
    assert not (tmp_path / "f" / "mail").exists()
    assert not (tmp_path / "f" / "notes" / "Plans").exists()


def test_documents_with_one_name_get_two_files(tmp_path: Path) -> None:
    root = tmp_path / "f"
    with sinks.opened("folder", str(root), create=True) as folder:
        folder.write([NOTE, replace(NOTE, id=2, item="plans/BRIDGE.md")], [])
        assert _files(root) == {"notes/Plans/Bridge.md", "notes/plans/BRIDGE (2).md"}
        folder.write([replace(NOTE, id=2, item="plans/BRIDGE.md", version="w")], [1])
        assert _files(root) == {"notes/plans/BRIDGE.md"}
        folder.write([replace(NOTE, id=3, item="../../evil.md"), replace(NOTE, id=4, item="/etc/" + "x" * 300)], [])
    assert all(file.startswith("notes/") for file in _files(root))
    assert len(_files(root)) == 3


def test_names_that_collide_with_alternatives_are_all_given(tmp_path: Path) -> None:
    root = tmp_path / "f"
    with sinks.opened("folder", str(root), create=True) as folder:
        folder.write([replace(NOTE, id=n, item=item) for n, item in enumerate(["n (3).md", "n.md", "N.md"], 1)], [])
        assert _files(root) == {"notes/n (3).md", "notes/n.md", "notes/N (3-2).md"}
        folder.write([], [1])
        assert _files(root) == {"notes/n.md", "notes/N (3).md"}
        folder.write([], [2])
        assert _files(root) == {"notes/N.md"}


def test_swapped_names_and_names_that_became_free_are_used(tmp_path: Path) -> None:
    root = tmp_path / "f"
    with sinks.opened("folder", str(root), create=True) as folder:
        folder.write([replace(NOTE, id=n, item=item) for n, item in enumerate("abc", 1)], [])
        folder.write([replace(NOTE, id=n, item=item, text=item) for n, item in enumerate("bca", 1)], [])
        assert _files(root) == {"notes/a.md", "notes/b.md", "notes/c.md"}
        assert (root / "notes" / "b.md").read_text().endswith("catchment: 1\n---\nb")
        folder.write([replace(NOTE, id=4, item="A")], [])
        assert _files(root) == {"notes/a.md", "notes/b.md", "notes/c.md", "notes/A (4).md"}
        folder.write([replace(NOTE, id=3, item="d")], [])
        assert _files(root) == {"notes/A.md", "notes/b.md", "notes/c.md", "notes/d.md"}


def test_path_that_is_too_long_is_one_refused_document(tmp_path: Path) -> None:
    root = tmp_path / "f"
    with sinks.opened("folder", str(root), create=True) as folder:
        with pytest.raises(DocumentRefused):
            folder.write([replace(NOTE, id=2, item="/".join(["x" * 170] * 30)), NOTE], [])
        assert folder.versions(0, 9)[1] == NOTE.version
        folder.write([], [2])
        assert folder.versions(0, 9) == {1: NOTE.version}


def test_copy_tells_where_it_comes_from_whatever_the_document_says(tmp_path: Path) -> None:
    own = {"source": "bank", "Item": "x", "url": "https://evil.example", "catchment": 7, "null": 1, "kept": 2}
    with sinks.opened("folder", str(tmp_path / "f"), create=True) as folder:
        folder.write([replace(NOTE, properties=own)], [])
    front = yaml.safe_load((tmp_path / "f" / "notes" / "Plans" / "Bridge.md").read_text().split("---\n")[1])
    assert (front["source"], front["item"], front["catchment"], front["kept"]) == ("notes", NOTE.item, 1, 2)
    assert front["original_source"] == "bank"
    assert front["null"] == 1
    assert "url" not in front
    assert "Item" not in front


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_exported_file_is_for_its_owner_only(tmp_path: Path, name: str) -> None:
    with sinks.exporting(tmp_path / name) as place:
        place.write([MAIL], [])
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", ["folder", "jsonl"])
def test_folder_of_a_sink_is_for_its_owner_only(tmp_path: Path, kind: str) -> None:
    (tmp_path / "old").mkdir(mode=0o755)
    for name in ("old", "new"):
        with sinks.opened(kind, str(tmp_path / name), create=True):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["folder", "jsonl", "parquet"])
def test_files_of_a_sink_are_for_its_owner_only_until_their_mode_is_changed(tmp_path: Path, kind: str) -> None:
    root, umask = tmp_path / "f", os.umask(0)
    try:
        with sinks.opened(kind, str(root), create=True) as place:
            place.write([NOTE], [])
            made = [path for path in root.rglob("*") if ".catchment" not in str(path.relative_to(root))]
            assert {stat.S_IMODE(path.stat().st_mode) for path in (*made, root / ".catchment")} == {0o600, 0o700}
            (file,) = (path for path in made if path.is_file())
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            file.chmod(0o640)
            place.write([replace(NOTE, version="v2", text="Another text")], [])
            assert (stat.S_IMODE(file.stat().st_mode), "v2" in place.versions(0, 9)[NOTE.id]) == (0o640, True)
    finally:
        os.umask(umask)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_planted_links_of_a_folder_of_shards_are_not_followed(tmp_path: Path, kind: str) -> None:
    root, outside = tmp_path / "f", tmp_path / "outside"
    outside.write_text("outside")
    root.mkdir()
    (root / ".catchmentignore").symlink_to(outside)
    with sinks.opened(kind, str(root), create=True) as place:
        names = (f".catchment/0000000.{kind}", ".catchment/lines.jsonl", f"0000000.{kind}")
        for name in names:
            (root / name).symlink_to(outside)
        assert place.versions(0, 9) == {}
        place.write([MAIL], [])
        assert place.versions(0, 9) == {1: "v"}
    assert outside.read_text() == "outside"


def test_folder_of_an_earlier_version_is_written_anew(tmp_path: Path) -> None:
    """Its index has no wanted names, and its copies have the frontmatter of their documents."""
    root = tmp_path / "f"
    with sinks.opened("folder", str(root), create=True) as folder:
        folder.write([NOTE, replace(NOTE, id=2, item="gone.md")], [])
        folder.mark("0-1-x")
    with closing(sqlite3.connect(root / ".catchment" / "index.db")) as index:
        index.executescript("""DROP TABLE files; DROP TABLE outdated; PRAGMA user_version = 0;
            CREATE TABLE files (id INTEGER PRIMARY KEY, version TEXT NOT NULL, name TEXT NOT NULL,
                folded TEXT NOT NULL UNIQUE, size INTEGER, modified INTEGER);
            CREATE TABLE outdated (name TEXT PRIMARY KEY);""")
    with sinks.opened("folder", str(root)) as folder:
        assert folder.stamp() != "0-1-x"
        assert folder.versions(0, 9) == {1: "altered", 2: "altered"}
        folder.write([NOTE], [2])
    assert _files(root) == {"notes/Plans/Bridge.md"}


def test_source_above_a_sink_does_not_read_it(home: Home, tmp_path: Path) -> None:
    """Otherwise, every delivery would add copies of the copies."""
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.md").write_text("# A")
    with sinks.opened("folder", str(folder / "library"), create=True) as opened:
        opened.write([NOTE], [])
    _read(home, LocalFiles(LocalFiles.settings(root=folder)), "documents")
    with closing(Ledger.open(home.database_url)) as ledger:
        assert [document.item for document in ledger.outbox.documents([1, 2])] == ["a.md"]


def test_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(Refused), sinks.opened("folder", str(tmp_path), create=True):
        pass
    assert (tmp_path / "mine.txt").exists()


@pytest.mark.parametrize("connector", [Obsidian, LocalFiles])
def test_exported_notes_are_read_as_the_same_documents(
    home: Home, tmp_path: Path, connector: type[Obsidian | LocalFiles]
) -> None:
    vault, out = tmp_path / "vault", tmp_path / "out"
    shutil.copytree(_VAULT, vault)
    (vault / "odd.md").write_text(
        '---\nquote: "a: \\"b\\" \\u2028 ]"\n"odd key:": [1, 2.5, true]\ntags: x\n---\n---\n\nText'
    )
    _read(home, connector(connector.settings(root=vault)), "before")
    with closing(Ledger.open(home.database_url)) as ledger:
        with sinks.exporting(out) as folder:
            counts = export(ledger, folder)
        before = _notes(ledger, "before")
        (out / "before" / ".obsidian").mkdir()
        _read(home, connector(connector.settings(root=out / "before")), "after")
        after = _notes(ledger, "after")
    assert len(before) > 60
    assert counts.refused == 0
    for item, document in before.items():
        assert _facts(after[item]) == _facts(document), item


def _notes(ledger: Ledger, source: str) -> dict[str, DocumentCopy]:
    found = ledger.outbox.documents(ledger.outbox.versions(0, LAST_ID))
    return {
        one.item: one
        for one in found
        if one.source == source and one.media_type == "text/markdown"
        if ".md" in one.item
    }


def _facts(document: DocumentCopy) -> tuple[object, ...]:
    return (
        document.text,
        document.title,
        document.created,
        document.modified,
        document.named(EntityKind.TAG),
        document.aliases,
        {(link.kind, link.target, link.anchor) for link in document.links if link.kind is not LinkKind.URL},
        {link.target for link in document.links if link.kind is LinkKind.URL},
    )
