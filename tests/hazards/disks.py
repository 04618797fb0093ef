"""Hazards of the disk and files of the state: full, read-only, damaged, missing, outdated."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from benchmarks.notes import generate
from tests.acceptance.person import Person, upright
from tests.acceptance.small_disk import small_disk, within
from tests.hazards.catchment import documents, held
from tests.hazards.folders import edit, few, note, on_disk, write
from tests.hazards.model import Area, Hazard, Verdict, judge

_NAME = "notes"
_NOTES = 4_000
_PAGE = 8_192


@dataclass(frozen=True)
class Disks:
    """The folder in which each hazard creates its home."""

    folder: Path

    def library(self, name: str) -> Library:
        """Yield a home with a few synced notes and no running processes."""
        folder = self.folder / name / "notes"
        few(folder)
        library = Library(Person(self.folder / name / "home"), folder)
        library.person("add", "local_files", folder, "--name", _NAME).ok()
        with upright(library.person):
            library.person.sync(_NAME)
        return library


@dataclass(frozen=True)
class Library:
    """The notes of a user and their state in the library."""

    person: Person
    notes: Path

    @property
    def ledger(self) -> Path:
        return self.person.home / "ledger.db"

    def synced(self, noted: Verdict | None = None) -> Verdict:
        """Sync once more; return the remaining problems and those noted before."""
        with upright(self.person):
            self.person.sync_when_ready(_NAME)
        found = judge(on_disk(self.notes), held(self.person, _NAME, lambda locator, _title: locator), noted)
        found.expect(self.person("ledger", "check", "--deep").code == 0, "the ledger is not sound")
        return found


@contextmanager
def disks(folder: Path) -> Iterator[Disks]:
    yield Disks(folder)


def full_when_a_source_is_added(at: Disks) -> Verdict:
    few(at.folder / "full" / "notes")
    verdict = Verdict()
    with small_disk(at.folder / "full" / "home") as person:
        adding = ("add", "local_files", at.folder / "full" / "notes", "--name", _NAME)
        person("sources", "list").ok()
        fill = person.home / "fill"
        within(person, "dd", "if=/dev/zero", f"of={fill}", "bs=4k", check=False)
        result = person(*adding)
        verdict.expect((result.code, "disk is full" in result.err) == (10, True), result.err)
        within(person, "rm", str(fill))
        verdict.expect(person("sources", "list", "--json").ok().json == [], "half a source was added")
        person(*adding).ok()
        verdict.expect(person("ledger", "check", "--deep").code == 0, "the ledger is not sound")
    return verdict


def full_in_the_middle(at: Disks) -> Verdict:
    vault = at.folder / "filling" / "vault"
    generate(vault, _NOTES)
    verdict = Verdict()
    with small_disk(at.folder / "filling" / "home") as person, upright(person):
        person("add", "obsidian", vault, "--name", _NAME).ok()
        result = person("sync", _NAME, "--wait")
        verdict.expect("full" in result.err, f"ended with {result.code} and does not say why")
        within(person, "mount", "-o", "remount,size=400m", str(person.home))
        person("up", "--detach").ok()
        person.sync_when_ready(_NAME)
        count = person.source(_NAME)["documents"]
        verdict.expect(count == _NOTES, f"{count} of {_NOTES} are there")
        verdict.expect(person("ledger", "check", "--deep").code == 0, "the ledger is not sound")
    return verdict


def full_for_prefect(at: Disks) -> Verdict:
    return _full_around(at, "prefect")


def full_for_the_logs(at: Disks) -> Verdict:
    return _full_around(at, "logs")


def full_for_what_runs(at: Disks) -> Verdict:
    return _full_around(at, "run")


def full_for_the_ledger(at: Disks) -> Verdict:
    address = f"sqlite:///{at.folder / 'ledger' / 'home' / 'ledger' / 'ledger.db'}"
    return _full_around(at, "ledger", variables={"CATCHMENT_DATABASE_URL": address})


def full_for_the_cache(at: Disks) -> Verdict:
    return _full_around(at, "cache", linked="cache.db")


def _full_around(
    at: Disks, folder: str, *, variables: Mapping[str, str] = MappingProxyType({}), linked: str = ""
) -> Verdict:
    """Fill the disk of one folder of the home during a sync, and free it afterwards.

    `linked`: the name of a file with a location that cannot be configured; a symbolic link places it in that folder.
    """
    notes = at.folder / folder / "notes"
    few(notes)
    verdict = Verdict()
    with small_disk(at.folder / folder / "home", folder=folder, megabytes=50) as anybody:
        person = replace(anybody, variables=dict(variables))
        if linked:
            (person.home / linked).symlink_to(person.home / folder / linked)
        with upright(person):
            _fill_and_make_room(person, folder, notes, verdict)
    # A ledger on the small disk was removed with it; its report was recorded earlier.
    if variables:
        return verdict
    return judge(on_disk(notes), held(person, _NAME, lambda locator, _title: locator), verdict)


def _fill_and_make_room(person: Person, folder: str, notes: Path, verdict: Verdict) -> None:
    person("add", "local_files", notes, "--name", _NAME).ok()
    fill = person.home / folder / "fill"
    within(person, "dd", "if=/dev/zero", f"of={fill}", "bs=4k", check=False)
    result = person("sync", _NAME, "--wait")
    verdict.expect("Traceback" not in result.err, result.err)
    if result.code:
        verdict.expect(
            (result.code, "full" in result.err.splitlines()[-1]) == (10, True), f"{result.code}: {result.err}"
        )
    within(person, "rm", str(fill))
    person("up", "--detach").ok()
    edit(notes)
    person.sync_when_ready(_NAME)
    count = sum(path.is_file() for path in notes.rglob("*"))
    documents = person.source(_NAME)["documents"]
    verdict.expect(documents == count, f"{documents} of {count} are there")
    verdict.expect(person("prove", _NAME).code == 0, "what is there is not what the source has")
    verdict.expect(person("ledger", "check", "--deep").code == 0, "the ledger is not sound")


def read_only(at: Disks) -> Verdict:
    few(at.folder / "fixed" / "notes")
    verdict = Verdict()
    with small_disk(at.folder / "fixed" / "home") as person:
        person("add", "local_files", at.folder / "fixed" / "notes", "--name", _NAME).ok()
        within(person, "mount", "-o", "remount,ro", str(person.home))
        result = person("sources", "pause", _NAME)
        verdict.expect(result.code in (1, 3, 10) and len(result.err.splitlines()) == 1, f"{result.code}: {result.err}")
        verdict.expect(person("status").code == 0, "its state cannot be seen")
        within(person, "mount", "-o", "remount,rw", str(person.home))
        verdict.expect(person("sources", "pause", _NAME).code == 0, "it is read-only still")
    return verdict


def a_page_is_damaged(at: Disks) -> Verdict:
    library = at.library("damaged")
    kept = at.folder / "damaged" / "kept.db"
    before = documents(library.person, _NAME)
    library.person("backup", kept).ok()
    data = bytearray(library.ledger.read_bytes())
    data[_PAGE : 3 * _PAGE] = os.urandom(2 * _PAGE)
    library.ledger.write_bytes(data)
    result = library.person("up", "--detach")
    verdict = Verdict()
    verdict.expect((result.code, "catchment restore" in result.err) == (1, True), f"{result.code}: {result.err}")
    verdict.expect(library.ledger.read_bytes() == data, "it was written to")
    library.person("restore", kept).ok()
    verdict.expect(documents(library.person, _NAME) == before, "its documents are others")
    return library.synced(verdict)


def the_ledger_is_gone(at: Disks) -> Verdict:
    library = at.library("gone")
    for file in library.person.home.glob("ledger.db*"):
        file.unlink()
    return library.synced()


def what_prefect_remembers_is_gone(at: Disks) -> Verdict:
    library = at.library("forgotten")
    before = documents(library.person, _NAME)
    for file in (library.person.home / "prefect").glob("prefect.db*"):
        file.unlink()
    edit(library.notes)
    verdict = library.synced()
    verdict.expect(documents(library.person, _NAME) == before, "its documents are others")
    return verdict


def an_earlier_day_is_brought_back(at: Disks) -> Verdict:
    library = at.library("earlier")
    kept = at.folder / "earlier" / "kept.db"
    library.person("backup", kept).ok()
    edit(library.notes)
    write(library.notes, "later.md", note("later.md"))
    (library.notes / "weir.md").unlink()
    first = library.synced()
    library.person("restore", kept).ok()
    return library.synced(first)


AREA = Area(
    "disks",
    disks,
    (
        Hazard("full when a source is added", "error; no partial source", full_when_a_source_is_added),
        Hazard("full in the middle of a sync", "error; continues with space", full_in_the_middle),
        Hazard("full for the ledger alone", "error; continues with space", full_for_the_ledger),
        Hazard("full for the cache alone", "continues with space", full_for_the_cache),
        Hazard("full for Prefect alone", "continues with space", full_for_prefect),
        Hazard("full for the logs alone", "continues", full_for_the_logs),
        Hazard("full for `run/` alone", "continues with space", full_for_what_runs),
        Hazard("read-only for a while", "error; can be read", read_only),
        Hazard("a page of the ledger is damaged", "error; the backup restores it", a_page_is_damaged),
        Hazard("the ledger is deleted", "read again from the source", the_ledger_is_gone),
        Hazard("Prefect's database is deleted", "the same documents", what_prefect_remembers_is_gone),
        Hazard("an older backup is restored", "the current files", an_earlier_day_is_brought_back),
    ),
)
