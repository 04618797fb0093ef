"""Runs of `embed` with a model behind a server, killed at any moment; the library changes before the next run."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from catchment.errors import MeaningOff
from catchment.ledger import EmbeddingCounts, Ledger
from catchment.ledger.db.schema import embeddings, title_embeddings
from catchment.search.meaning import fill as filling
from catchment.search.meaning.choice import load
from catchment.search.meaning.fill import fill
from console.data import backup
from tests.faults import scenes
from tests.faults.crashes import WITHIN, killing, listen, lived
from tests.faults.desk import Desk
from tests.faults.lives import a_place
from tests.faults.rehearsal import rehearse
from tests.search.test_models import _Server, address, serving

pytestmark = pytest.mark.faults

_PAPERS = 12
_SOME = 5


@dataclass
class Library:
    """A library of papers with a model behind a server, and another server."""

    place: Path
    server: _Server
    other: _Server

    @property
    def folder(self) -> Path:
        return self.place / "desk"

    def ledger(self) -> closing[Ledger]:
        return closing(Ledger.open(f"sqlite:///{self.folder}/home/ledger.db"))

    def inside(self, work: Callable[[Desk], object], heard: Callable[[str], None] | None = None) -> int:
        """Run a function in another process and return its exit code. `heard` receives each moment."""

        def working() -> None:
            desk = Desk(self.folder)
            if heard is not None:
                listen(heard)
            work(desk)

        end = lived(working, self.place / "note")
        assert end.code in (0, -9), end.said
        return end.code

    def choose(self, setting: str) -> None:
        with self.ledger() as ledger:
            ledger.embeddings.setting = setting

    def forget(self) -> None:
        self.server.texts.clear()
        self.other.texts.clear()

    @property
    def sent(self) -> list[str]:
        return [text for text in (*self.server.texts, *self.other.texts) if text != "search"]

    def check_vectors(self) -> None:
        """Check the ledger, and that each passage and each name has one embedding of the searched model."""
        with self.ledger() as ledger:
            assert ledger.check(deep=True) == []
            space = ledger.embeddings.searched()
            assert space is not None
            counts = ledger.embeddings.counts(space)
            assert counts == EmbeddingCounts(counts.total, counts.total, 0)
            with ledger._store.read() as reading:
                for table, owner in (
                    (embeddings, embeddings.c.chunk_id),
                    (title_embeddings, title_embeddings.c.document_id),
                ):
                    rows = reading.execute(table.select().with_only_columns(owner, table.c.space_id)).all()
                    assert {row.space_id for row in rows} <= {space.id}
                    assert len(set(rows)) == len(rows)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    monkeypatch.setattr(filling, "_PAUSES", ())
    monkeypatch.setattr(filling, "_CHUNKS_AT_ONCE", 4)
    monkeypatch.setattr(filling, "_TITLES_AT_ONCE", 4)
    rehearse()
    with a_place() as place, serving() as server, serving() as other:
        made = Library(place, server, other)
        made.inside(_papers)
        made.choose(address(server))
        yield made


def _papers(desk: Desk) -> None:
    for n in range(_PAPERS):
        desk.write(f"{n}.md", f"# Paper {n}\n\nIt speaks of alpha{n}, and that at length.")
    desk.sync()
    desk.home.sources_file.write_text("deployments: []\n")
    backup.backup(desk.aside / "copy.db")
    desk.write("late.md", "# A late paper\n\nIt speaks of omega.")
    desk.write("0.md", "# Paper 0\n\nIt speaks of something else now.")
    desk.sync()
    scenes.remember_sync(desk)


def embed(desk: Desk) -> None:
    """Make the embeddings, as the child process of a run does."""
    with desk.ledger() as ledger, suppress(MeaningOff):
        fill(ledger, load(ledger.embeddings.setting))


def synced(desk: Desk) -> None:
    desk.write("new.md", "# A new paper\n\nIt speaks of delta.")
    desk.remove("1.md")
    desk.sync()


ACTS: dict[str, Callable[[Library], object]] = {
    "off": lambda library: library.choose("off"),
    "another model": lambda library: library.choose(address(library.other)),
    "a sync": lambda library: library.inside(synced),
    "an undo": lambda library: library.inside(scenes.undone),
    "a revocation": lambda library: library.inside(scenes.revoked),
    "a restore": lambda library: library.inside(scenes.restored),
    "an update": lambda library: library.server.versions["models"][0].update(digest="another"),
}
_BRIEF = ("an undo", "a revocation", "an update")


@pytest.mark.parametrize("act", [act if act in _BRIEF else pytest.param(act, marks=pytest.mark.long) for act in ACTS])
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_killed_embedding_is_completed_after_any_act(library: Library, act: str, every: bool) -> None:
    before = library.place / "before"
    shutil.copytree(library.folder, before)
    versions = json.dumps(library.server.versions)
    heard: Counter[str] = Counter()

    def recorded(desk: Desk) -> None:
        listen(lambda moment: heard.update((moment,)))
        embed(desk)
        (desk.aside / "heard").write_text(json.dumps(heard))

    library.inside(recorded)
    found = json.loads((library.folder / "aside" / "heard").read_text())
    moments = [(name, n) for name, number in found.items() if not name.endswith(WITHIN) for n in sorted({1, number})]
    chosen = moments if every else moments[list(ACTS).index(act) % _SOME :: _SOME]
    killed = 0
    for name, occurrence in chosen:
        shutil.rmtree(library.folder)
        shutil.copytree(before, library.folder)
        library.server.versions = json.loads(versions)
        killed += library.inside(embed, killing(name, occurrence)) < 0
        library.forget()
        ACTS[act](library)
        with library.ledger() as ledger:
            assert ledger.check(deep=True) == []
            setting = ledger.embeddings.setting
        library.inside(embed)
        if setting == "off" or act == "a revocation":
            assert library.sent == [], (name, occurrence)
        if act == "another model":
            assert [text for text in library.server.texts if text != "search"] == []
        if setting in ("off", "use"):
            library.choose(address(library.server))
            library.inside(embed)
        library.check_vectors()
    assert killed >= len(chosen) * 0.8
