"""A watched vault: every file change is ingested soon, exactly once, and never partially."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from benchmarks.saving import EDITORS, Save
from catchment.ledger import Ledger
from catchment.model import JobState
from catchment.runtime import watch_status
from catchment.runtime.home import Home
from deployments.server.client import api
from deployments.watch import automation
from deployments.watch.sync_requests import Server
from tests.acceptance.accidents import FREQUENT_CHECKS
from tests.acceptance.person import Person, upright, without_meaning
from tests.hits import find_hits
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_NAME = "notes"
_SOON = 60


@dataclass(frozen=True, slots=True)
class Vault:
    """A watched vault on disk and its library contents."""

    root: Path
    ledger: Ledger

    def write(self, path: str, text: str) -> str:
        """Write a note that contains a unique word; return the word."""
        word = new_word()
        note = self.root / path
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"# {note.stem}\n\n{text} {word}\n")
        return word

    def found(self, word: str) -> list[str]:
        """Return the items that a search for the word finds."""
        return [hit.item for hit in find_hits(self.ledger, word)]

    def await_found(self, word: str, *items: str) -> None:
        """Wait until a search for the word finds exactly these items."""
        until(lambda: sorted(self.found(word)), lambda found: found == sorted(items))

    def documents(self) -> dict[str, int]:
        """Return the document number of each item."""
        source = self.ledger.sources.get(_NAME).id
        return {named.locator: named.document for named in self.ledger.library.names(source)}

    def await_all(self) -> None:
        """Wait until the library matches the disk: no missing and no ghost items."""
        there = {
            str(path.relative_to(self.root))
            for path in self.root.rglob("*.md")
            if not any(part.startswith(".") for part in path.relative_to(self.root).parts)
        }
        until(lambda: there ^ self.documents().keys(), lambda differs: not differs)

    def times_brought_in(self, item: str) -> int:
        """Return the number of ingested versions of an item."""
        done = self.ledger.queue.jobs(source=_NAME, state=JobState.SUCCEEDED, limit=100_000)
        return sum(job.item == item for job in done)


def new_word() -> str:
    return f"zq{uuid4().hex}"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    person = Person(tmp_path_factory.mktemp("watching") / "home", variables=FREQUENT_CHECKS)
    with upright(without_meaning(person)):
        yield person
    assert person.left() == []


@pytest.fixture(scope="module")
def vault(person: Person, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    """A watched vault of sixty notes. Its schedule is daily, so changes are found by watching."""
    root = tmp_path_factory.mktemp("vault") / "vault"
    (root / ".obsidian").mkdir(parents=True)
    for number in range(60):
        (root / f"{number // 10}").mkdir(exist_ok=True)
        (root / f"{number // 10}" / f"Note {number}.md").write_text(f"# Note {number}\n")
    person("add", "obsidian", root, "--name", _NAME, "--every", "1d", "--watch").ok()
    ledger = Ledger.inspect(Home(person.home).database_url)
    vault = Vault(root, ledger)
    vault.await_all()
    yield vault
    assert ledger.check(deep=True) == []
    ledger.close()


@pytest.fixture
def at_rest(person: Person, vault: Vault) -> Vault:
    """The vault while no sync is pending."""
    vault.await_all()
    until(lambda: person.runs("PENDING", "RUNNING"), lambda runs: not runs)
    return vault


@pytest.mark.parametrize("save", EDITORS.values(), ids=EDITORS.keys())
def test_save_is_ingested_once_for_every_editor_strategy(at_rest: Vault, save: Save) -> None:
    item, word = "0/Note 1.md", new_word()
    before = at_rest.times_brought_in(item)
    save(at_rest.root / item, f"# Note 1\n\n{word}\n")
    at_rest.await_found(word, item)
    at_rest.await_all()
    assert at_rest.times_brought_in(item) == before + 1


def test_slowly_written_note_is_never_ingested_partially(at_rest: Vault) -> None:
    first, last, other = new_word(), new_word(), ""
    begun = time.monotonic()
    with (at_rest.root / "slow.md").open("w") as file:
        file.write(f"{first}\n")
        # Wait until a note saved meanwhile is found, which shows that a sync has seen the incomplete note.
        while time.monotonic() < begun + 3 or not (other and at_rest.found(other)):
            file.write("one more line\n")
            file.flush()
            other = other or at_rest.write("quick.md", "saved meanwhile")
            assert at_rest.found(first) == []
            assert time.monotonic() < begun + _SOON
            time.sleep(0.1)
        file.write(f"{last}\n")
    at_rest.await_found(last, "slow.md")
    assert at_rest.found(first) == ["slow.md"]
    assert at_rest.times_brought_in("slow.md") == 1


def test_moved_folder_keeps_its_documents_and_a_removed_one_does_not(at_rest: Vault) -> None:
    elsewhere = at_rest.root.parent / "elsewhere"
    elsewhere.mkdir()
    word = new_word()
    for name in ("a.md", "b.md", "c.md"):
        (elsewhere / name).write_text(f"{name} {word}")
    elsewhere.rename(at_rest.root / "Inbox")
    at_rest.await_found(word, "Inbox/a.md", "Inbox/b.md", "Inbox/c.md")
    before = at_rest.documents()
    (at_rest.root / "Inbox").rename(at_rest.root / "5" / "Sorted")
    at_rest.await_found(word, "5/Sorted/a.md", "5/Sorted/b.md", "5/Sorted/c.md")
    after = at_rest.documents()
    assert [after[f"5/Sorted/{name}"] for name in ("a.md", "b.md")] == [before["Inbox/a.md"], before["Inbox/b.md"]]
    (at_rest.root / "5" / "Sorted").rename(elsewhere)
    at_rest.await_found(word)
    at_rest.await_all()


def test_branch_checkout_is_followed(at_rest: Vault) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], cwd=at_rest.root, check=True, capture_output=True)

    git("init", "--initial-branch=one")
    git("add", ".")
    git("commit", "--message=one")
    git("checkout", "-b", "two")
    word = at_rest.write("2/Note 20.md", "as on the second branch")
    added = at_rest.write("2/Only here.md", "only on the second branch")
    (at_rest.root / "3" / "Note 30.md").unlink()
    git("add", ".")
    git("commit", "--message=two")
    at_rest.await_found(word, "2/Note 20.md")
    git("checkout", "one")
    at_rest.await_found(word)
    at_rest.await_found(added)
    at_rest.await_all()
    git("checkout", "two")
    at_rest.await_found(word, "2/Note 20.md")
    at_rest.await_found(added, "2/Only here.md")
    at_rest.await_all()


def test_changes_during_downtime_are_found_afterwards(person: Person, at_rest: Vault) -> None:
    person("down").ok()
    word = at_rest.write("1/Note 10.md", "saved at night")
    (at_rest.root / "1" / "Note 11.md").unlink()
    person("up", "--detach").ok()
    at_rest.await_found(word, "1/Note 10.md")
    at_rest.await_all()


def test_event_lost_with_its_automation_is_recovered(person: Person, at_rest: Vault) -> None:
    with api(person.running) as client:
        query = {"automations": {"name": {"any_": [automation.title(_NAME)]}}}
        (there,) = client.post("/automations/filter", json=query).raise_for_status().json()
        client.delete(f"/automations/{there['id']}").raise_for_status()
        word = at_rest.write("0/Note 2.md", "whose event nobody answers")
        at_rest.await_found(word, "0/Note 2.md")
        assert len(client.post("/automations/filter", json=query).raise_for_status().json()) == 1


def test_tripled_event_creates_no_duplicates(person: Person, at_rest: Vault) -> None:
    before = at_rest.times_brought_in("0/Note 3.md")
    word = at_rest.write("0/Note 3.md", "told of again and again")
    server = Server(Home(person.home))
    for _ in range(3):
        server.emit(_NAME)
    server.close()
    at_rest.await_found(word, "0/Note 3.md")
    until(lambda: person.runs("SCHEDULED", "PENDING", "RUNNING"), lambda runs: not of_now(runs))
    assert at_rest.times_brought_in("0/Note 3.md") == before + 1


def of_now(runs: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the runs that do not wait for their schedule."""
    return [run for run in runs if run["state_type"] != "SCHEDULED" or not run["auto_scheduled"]]


def test_save_during_a_worker_crash_is_found(person: Person, at_rest: Vault) -> None:
    (worker,) = [one for one in person.processes() if one.name() == "worker"]
    worker.suspend()
    word = at_rest.write("4/Note 40.md", "saved while nobody looked")
    os.kill(worker.pid, signal.SIGKILL)
    at_rest.await_found(word, "4/Note 40.md")
    until(lambda: watched(person), lambda state: state is watch_status.Watching.WATCHING)


def test_missing_root_keeps_its_documents_and_is_watched_on_return(person: Person, at_rest: Vault) -> None:
    documents = at_rest.documents()
    away = at_rest.root.with_name("unplugged")
    at_rest.root.rename(away)
    until(lambda: watched(person), lambda state: state is watch_status.Watching.GONE)
    assert at_rest.documents() == documents
    (away / "0" / "Note 4.md").write_text(f"written elsewhere {(word := new_word())}")
    away.rename(at_rest.root)
    at_rest.await_found(word, "0/Note 4.md")
    until(lambda: watched(person), lambda state: state is watch_status.Watching.WATCHING)
    assert at_rest.documents() == documents
    later = at_rest.write("0/Note 4.md", "and is watched again")
    at_rest.await_found(later, "0/Note 4.md")


def watched(person: Person) -> watch_status.Watching | None:
    """Return the state of the vault's watch as the live watcher reports it."""
    said = (watch_status.read(Home(person.home)) or {}).get(_NAME)
    return said.state if said else None


@pytest.mark.parametrize("notes", [2_500, pytest.param(25_000, marks=pytest.mark.soak)])
def test_an_archive_of_many_thousand_notes_is_unzipped(at_rest: Vault, tmp_path: Path, notes: int) -> None:
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        for number in range(notes):
            archive.writestr(f"Unzipped {notes}/{number // 250}/{number}.md", f"# Number {number}\n")
    shutil.unpack_archive(tmp_path / "notes.zip", at_rest.root)
    until(lambda: at_rest.ledger.library.sizes()[_NAME], lambda n: n >= notes)
    at_rest.await_all()
    before = len(at_rest.ledger.queue.jobs(source=_NAME, limit=100_000))
    word = at_rest.write("0/Note 5.md", "saved among many")
    at_rest.await_found(word, "0/Note 5.md")
    assert len(at_rest.ledger.queue.jobs(source=_NAME, limit=100_000)) == before + 1
