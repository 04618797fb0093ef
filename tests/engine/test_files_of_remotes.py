"""Archives and mailboxes on a remote are read as those in a folder."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from catchment.settings import Home
from tests.connectors.remote.storages import configure
from tests.engine.papers import Papers
from tests.engine.test_promises_of_each_kind import RemotePapers

_MAIL = b"From ada Mon Mar  2 10:00:00 2026\nSubject: %s\nMessage-ID: <%s@example.org>\nFrom: a@example.org\n\nWhat %s says\n\n"


def test_parts_of_files_are_documents_as_in_a_folder(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "of"
    folder.mkdir()
    configure(monkeypatch, tmp_path / "person", box={"type": "alias", "remote": str(folder)})
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("deep/one.md", "# One\n\nInside of two archives")
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("inner.zip", inner.getvalue())
        archive.writestr("two.md", "# Two")
    (folder / "box.mbox").write_bytes(b"".join(_MAIL % ((name,) * 3) for name in (b"alder", b"birch")))
    papers = RemotePapers(home, folder)
    assert hasattr(papers.connector, "scopes")
    papers.ledger.consents.give(papers.source.id, frozenset(papers.connector.scopes()), "anna", None)
    papers.sync()
    found = papers.documents()
    (local := Papers(Home(tmp_path / "other"), folder)).sync()
    assert found.keys() == local.documents().keys()
    assert any("Inside of two archives" in text for text in found.values())
    assert sum("says" in text for text in found.values()) >= 2
    assert papers.sync()["jobs"] == 0
