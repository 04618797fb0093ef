"""The promises to a source: a folder, pushed documents, a package's connector, a program's records, a remote of rclone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from sqlalchemy import text

from catchment.content import pushed_files
from catchment.content.parsing import CODE
from catchment.contracts import Connector
from catchment.errors import NoConsent
from catchment.ledger import BackfillSelection
from catchment.model import Priority, RawContent, ReplayStage
from catchment.runtime.process import alive
from catchment.settings import FullPath, Home, Policy, SourceSettings
from catchment.sync import revoke
from catchment.sync.preflight import WHOLE, consented, scopes_of
from catchment.sync.source_sync import open_sync
from connectors.listing import Entry, Listing
from connectors.programs import Program
from connectors.programs.settings import ProgramSettings
from connectors.pushed import Pushed, PushedSettings
from connectors.rclone import RcloneRemote, RemoteSettings
from tests.connectors.programs.scripts import write_records, write_script
from tests.connectors.remote.storages import configure
from tests.engine.papers import Papers
from tests.hits import find_hits

_BOARD = '{"nodes": [{"id": "1", "type": "text", "text": "What the board says"}], "edges": []}'


class TextsSettings(SourceSettings):
    """Settings of a `texts` source."""

    identity: ClassVar[tuple[str, ...]] = ("file",)
    file: FullPath


class Texts(Listing):
    """A connector as a package brings it: for a JSON object with texts by name."""

    kind = "texts"
    settings = TextsSettings

    def entries(self) -> Iterator[Entry]:
        for name, content in json.loads(self.configured.file.read_bytes()).items():
            yield Entry(name, content.encode())


class FolderPapers(Papers):
    """Papers in a folder. `unreadable`: the name of an item that cannot be read."""

    unreadable = "board.canvas"

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()


class PushedPapers(FolderPapers):
    """Papers that a program pushes, each with its name as the key."""

    kind = "pushed"

    @property
    def connector(self) -> Connector:
        return Pushed(PushedSettings(folder="papers"))

    def write(self, name: str, text: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        pushed_files.put(self.folder, name, RawContent(text.encode(), name))

    def remove(self, name: str) -> None:
        pushed_files.remove(self.folder, name)

    def documents(self) -> dict[str, str]:
        return {locator.rpartition("/")[2]: content for locator, content in super().documents().items()}


class PackagedPapers(FolderPapers):
    """Papers in one file."""

    kind = "texts"

    @property
    def connector(self) -> Connector:
        return Texts(TextsSettings(file=self.folder / "texts.json"))

    @property
    def texts(self) -> dict[str, str]:
        file = self.folder / "texts.json"
        return dict(json.loads(file.read_bytes())) if file.exists() else {}

    def put(self, texts: dict[str, str]) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "texts.json").write_text(json.dumps(texts))

    def write(self, name: str, text: str) -> None:
        self.put({**self.texts, name: text})

    def remove(self, name: str) -> None:
        self.put({each: content for each, content in self.texts.items() if each != name})


class PrintedPapers(PackagedPapers):
    """Papers that a program prints as records, all of them each time."""

    kind = "program"
    unreadable = "unreadable/"

    @property
    def connector(self) -> Connector:
        return Program(ProgramSettings(command=(str(self.folder / "tap.py"),)))

    @property
    def texts(self) -> dict[str, str]:
        file = self.folder / "records.json"
        return dict(json.loads(file.read_bytes())) if file.exists() else {}

    def put(self, texts: dict[str, str]) -> None:
        self.folder.mkdir(exist_ok=True)
        write_script(self.folder)
        write_records(self.folder, texts)

    def documents(self) -> dict[str, str]:
        return {locator.rpartition("/")[2]: content for locator, content in super().documents().items()}


class RemotePapers(FolderPapers):
    """Papers in a folder that rclone reads."""

    kind = "remote"

    @property
    def connector(self) -> Connector:
        return RcloneRemote(RemoteSettings(remote="box:"))


@pytest.fixture(
    params=[FolderPapers, PushedPapers, PackagedPapers, PrintedPapers, RemotePapers], ids=lambda made: made.kind
)
def papers(request: pytest.FixtureRequest, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderPapers:
    configure(monkeypatch, tmp_path / "person", box={"type": "alias", "remote": str(tmp_path / "of")})
    made: FolderPapers = request.param(
        home, home.pushed / "papers" if request.param is PushedPapers else tmp_path / "of"
    )
    if scopes := scopes_of(made.connector):
        made.ledger.consents.give(made.source.id, frozenset(scopes), "anna", None)
    for number in range(4):
        made.write(f"{number}.md", f"# Paper {number}\n\nWhat it says.")
    made.sync()
    return made


def _change(papers: FolderPapers) -> dict[str, str]:
    """Add, edit and remove a paper; return the documents of the next sync."""
    papers.write("new.md", "New")
    papers.write("1.md", "Another text")
    papers.remove("2.md")
    return {
        "0.md": papers.documents()["0.md"],
        "1.md": "Another text",
        "3.md": papers.documents()["3.md"],
        "new.md": "New",
    }


def _last(papers: FolderPapers) -> list[str]:
    """The last part of the path of each document."""
    return [named.locator.rpartition("/")[2] for named in papers.ledger.library.names(papers.source.id)]


def test_each_document_is_there_once_and_a_second_sync_has_no_work(papers: FolderPapers) -> None:
    assert sorted(_last(papers)) == [f"{number}.md" for number in range(4)]
    assert papers.sync()["jobs"] == 0
    after = _change(papers)
    assert papers.sync()["jobs"] == 2
    assert papers.documents() == after
    assert papers.ledger.check(deep=True) == []


@pytest.mark.parametrize("steps", range(4))
def test_sync_that_is_killed_is_completed_by_the_next(papers: FolderPapers, steps: int) -> None:
    after = _change(papers)
    with open_sync(papers.home, papers.connector, "papers", Policy(), Priority.NORMAL) as sync:
        acts: list[Callable[[], object]] = [sync.discover]
        acts += [lambda: sync.process(token) if (token := sync.claim(1)) is not None else None] * 2
        for act in acts[:steps]:
            act()
    papers.sync()
    assert papers.documents() == after
    assert papers.sync()["jobs"] == 0
    assert papers.ledger.check(deep=True) == []


def test_emptied_source_deletes_no_documents(papers: FolderPapers) -> None:
    for number in range(4, 20):
        papers.write(f"{number}.md", f"Paper {number}")
    papers.sync()
    before = papers.documents()
    for name in before:
        papers.remove(name)
    papers.sync()
    assert papers.documents() == before
    assert sum(hold.count for hold in papers.ledger.intake.holds()) == 20
    assert papers.repair(papers.prove()) == 20


def test_plan_lists_each_change_and_the_sync_by_it_applies_no_other(papers: FolderPapers) -> None:
    before, after = papers.documents(), _change(papers)
    plan = papers.plan()
    assert {step.item.rpartition("/")[2]: step.action.value for step in plan.steps} == {
        "new.md": "add",
        "1.md": "change",
        "2.md": "delete",
    }
    assert papers.documents() == before
    papers.write("later.md", "Later")
    papers.sync(plan)
    assert papers.documents() == after
    papers.sync()
    assert papers.documents() == {**after, "later.md": "Later"}


def test_differences_are_proved_and_repaired(papers: FolderPapers) -> None:
    assert papers.prove().holds
    after = _change(papers)
    proven = papers.prove()
    assert {each.item.rpartition("/")[2]: each.flaw.value for each in proven.findings} == {
        "new.md": "missing",
        "1.md": "stale",
        "2.md": "ghost",
    }
    papers.repair(proven)
    papers.sync()
    assert papers.documents() == after
    assert papers.prove(deep=True).holds


def test_sync_is_undone_and_redone(papers: FolderPapers) -> None:
    before, after = papers.documents(), _change(papers)
    papers.sync()
    for expected in (before, after, before):
        last = papers.ledger.syncs.last(papers.source.id)
        assert last is not None
        papers.ledger.undo.undo(last.id, "anna", "", alive)
        assert papers.documents() == expected
    papers.sync()
    assert papers.documents() == before
    papers.write("1.md", "A third text")
    papers.sync()
    assert papers.documents() == {**before, "1.md": "A third text"}


def test_unreadable_document_is_quarantined_alone(papers: FolderPapers) -> None:
    papers.write("board.canvas", "{no board")
    papers.write("new.md", "New")
    papers.sync()
    (entry,) = papers.ledger.quarantine.list()
    assert papers.unreadable in entry.item
    assert papers.documents().keys() == {*(f"{number}.md" for number in range(4)), "new.md"}
    papers.write("board.canvas", _BOARD)
    papers.sync()
    assert papers.ledger.quarantine.list() == []
    assert "What the board says" in papers.documents()["board.canvas"]


def test_documents_are_read_again_by_a_replay(papers: FolderPapers) -> None:
    before = papers.documents()
    with papers.ledger._store.write() as writing:
        writing.connection.execute(text("UPDATE contents SET normalizer = '1.1 text/markdown'"))
    what, backfills = BackfillSelection(ReplayStage.NORMALIZE), papers.ledger.backfills
    survey = backfills.survey(papers.source.id, what, CODE)
    assert survey.total == 4
    number = backfills.plan(papers.source.id, what, survey, "anna")
    backfills.start(number, survey.digest, "anna")
    with open_sync(papers.home, papers.connector, "papers", Policy(), Priority.NORMAL, backfill=number) as sync:
        sync.discover()
        while (token := sync.claim(2)) is not None:
            sync.normalize(token)
            sync.process(token)
        assert sync.finish("completed")["succeeded"] == 4
    assert papers.documents() == before
    assert backfills.outdated(CODE) == {}


def test_withdrawn_consent_deletes_every_text(papers: FolderPapers) -> None:
    papers.write("secret.md", "A very particular sentence")
    papers.sync()
    whole = revoke.Extent(frozenset(scopes_of(papers.connector) or {WHOLE}), lambda _locator: True, whole=True)
    assert revoke.revoke(papers.home, papers.ledger, papers.source, whole, "anna").holds
    assert papers.documents() == {}
    assert find_hits(papers.ledger, "particular") == []
    with pytest.raises(NoConsent):
        consented(papers.ledger, papers.source, papers.connector)


def test_secrets_in_a_text_are_masked(papers: FolderPapers) -> None:
    token = f"ghp_{'aB3dE5gH7j' * 3}kL9mN1"
    papers.write("key.md", f"The token is {token}.")
    papers.sync()
    assert token not in papers.documents()["key.md"]
