"""Each runbook in its situation: its commands give the documented output, and afterwards the problem is solved."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from catchment.ledger import Ledger
from catchment.model import JobState
from catchment.runtime.home import Home
from catchment.sync.source_sync import HELD_AFTER
from tests.acceptance import document
from tests.acceptance.accidents import FREQUENT_CHECKS, UNHURRIED, executing
from tests.acceptance.person import COMMAND, PROJECT, Person, upright
from tests.acceptance.small_disk import small_disk, within
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.server import TOKEN, serving_hub
from tests.connectors.imap.dovecot import USER, message, serving
from tests.normalize.samples import pdf
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_RUNBOOKS = PROJECT / "docs" / "runbooks.md"
_ELSEWHERE = ["Too many folders to watch (`watch.limited`)"]
"""Covered by `test_watch_limits`, which needs a system in a separate user namespace."""
_HERE = [heading for heading in document.headings(_RUNBOOKS) if heading not in _ELSEWHERE]
_MANY = 60
"""Number of papers that makes an unhurried sync long enough to be interrupted midway."""


@dataclass(frozen=True)
class Desk:
    """A user, and the folder to which `~` expands."""

    person: Person
    home: Path

    @property
    def papers(self) -> Path:
        return self.home / "Papers"

    def file(self, name: str, text: str) -> None:
        """Write a paper."""
        (self.papers / name).write_text(text)

    def begin(self) -> None:
        """Start the system and sync three papers as the source `papers`."""
        self.person("up", "--detach").ok()
        sources = self.person("sources", "list", "--json").ok().json
        if any(source["standing"]["name"] == "papers" for source in sources):
            self.person("sources", "remove", "papers", "--yes").ok()
        shutil.rmtree(self.papers, ignore_errors=True)
        self.papers.mkdir()
        for name in ("weir", "gauge", "sluice"):
            self.file(f"{name}.md", f"# {name}\n\nThe rating curve of the {name}.\n")
        self.person("add", "local_files", self.papers, "--name", "papers").ok()
        self.person.sync("papers")


Situation = Callable[[Desk], AbstractContextManager[Desk]]
_SITUATIONS: dict[str, Situation] = {}


def situation(heading: str) -> Callable[[Callable[[Desk], None]], Callable[[Desk], None]]:
    """Register a function that creates the situation of a runbook at a desk prepared by `begin`."""

    def register(bring_about: Callable[[Desk], None]) -> Callable[[Desk], None]:
        @contextmanager
        def brought_about(desk: Desk) -> Iterator[Desk]:
            desk.begin()
            bring_about(desk)
            yield desk

        _SITUATIONS[heading] = brought_about
        return bring_about

    return register


def world(heading: str) -> Callable[[Situation], Situation]:
    """Register a function that creates the situation of a runbook and needs its own environment."""

    def register(made: Situation) -> Situation:
        _SITUATIONS[heading] = made
        return made

    return register


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    home = tmp_path_factory.mktemp("runbooks") / "me"
    home.mkdir()
    path = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]])
    variables = {"HOME": str(home), "PATH": path, **UNHURRIED, **FREQUENT_CHECKS}
    with upright(Person(home / ".local" / "share" / "catchment", variables=variables)) as person:
        yield Desk(person, home)
    assert person.left() == []


@pytest.mark.parametrize("heading", _HERE)
def test_runbook_solves_its_situation(desk: Desk, heading: str) -> None:
    with _SITUATIONS[heading](desk) as there:
        environment = there.person.environment
        done = document.carry_out(_RUNBOOKS, environment, there.home, under=heading, before=there.person.before)
    assert done


def test_every_situation_has_a_runbook() -> None:
    assert sorted(_SITUATIONS) == sorted(_HERE)


@situation("An upgrade reads documents better")
def _read_by_an_earlier_version(desk: Desk) -> None:
    with closing(sqlite3.connect(desk.person.home / "ledger.db", timeout=30)) as ledger, ledger:
        ledger.execute("UPDATE contents SET normalizer = '1.1 text/markdown'")


@situation("Search finds no document after a successful sync")
def the_index_is_empty(desk: Desk) -> None:
    with closing(sqlite3.connect(desk.person.home / "ledger.db")) as ledger, ledger:
        for index in ("chunk_index", "document_index"):
            ledger.execute(f"INSERT INTO {index} ({index}) VALUES ('delete-all')")


@situation("A file is not found")
def files_are_missing(desk: Desk) -> None:
    desk.file("cut.pdf", "%PDF-1.4 cut")
    desk.person.sync("papers")
    desk.file("new.md", "# New\n\nThe rating curve of the new one.\n")
    desk.file(".draft.md", "# Draft\n")


@situation("The quarantine grows (`parser.broken`, `failures.rising`)")
def three_are_cut_off(desk: Desk) -> None:
    whole = desk.home / "whole"
    whole.mkdir(exist_ok=True)
    for number in range(3):
        desk.file(f"{number}.pdf", "%PDF-1.4 cut")
        (whole / f"{number}.pdf").write_bytes(pdf(f"The plan {number} of the weir."))
    desk.person.sync("papers")


@world("The port is taken")
@contextmanager
def another_has_the_port(desk: Desk) -> Iterator[Desk]:
    desk.person("down").ok()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        variables = {**desk.person.variables, "PORT": str(other.getsockname()[1])}
        yield Desk(Person(desk.person.home, variables=variables), desk.home)


@world("The disk is full (`disk.full`, `ledger.unwritable`)")
@contextmanager
def no_room(desk: Desk) -> Iterator[Desk]:
    (desk.home / "Letters").mkdir()
    with small_disk(desk.home / "small") as person:
        full = Person(person.home, person.before, desk.person.variables)
        full("sources", "list").ok()
        within(full, "dd", "if=/dev/zero", f"of={person.home}/fill", "bs=4k", check=False)
        yield Desk(full, desk.home)


@situation("The ledger is damaged (`ledger.damaged`)")
def half_of_it_is_gone(desk: Desk) -> None:
    kept = desk.home / "kept.db"
    kept.unlink(missing_ok=True)
    desk.person("backup", kept).ok()
    desk.person("down").ok()
    ledger = desk.person.home / "ledger.db"
    ledger.write_bytes(ledger.read_bytes()[:20_000])


@situation("Deletions are held (`deletions.held`)")
def many_are_gone(desk: Desk) -> None:
    for number in range(20):
        desk.file(f"{number}.md", f"# Paper {number}\n")
    desk.person.sync("papers")
    for number in range(15):
        (desk.papers / f"{number}.md").unlink()
    desk.person.sync("papers")


@situation("I deleted or changed files by mistake")
def one_deleted_one_overwritten(desk: Desk) -> None:
    (desk.papers / "gauge.md").unlink()
    desk.file("weir.md", "oops\n")


@world("A login is refused (`login.refused`)")
@contextmanager
def another_password(desk: Desk) -> Iterator[Desk]:
    secret = desk.home / ".mail-password"
    secret.touch(mode=0o600)
    for dovecot in serving():
        with dovecot.person() as mine:
            mine.append("INBOX", message(1, "The sluice"))
        secret.write_text("correct horse")
        where = ("imap", f"{USER}@127.0.0.1:{dovecot.port}", "--set", "security=none", "--consent")
        desk.person("up", "--detach").ok()
        desk.person("add", *where, "--name", "mail", "--secret", f"password=file:{secret}").ok()
        secret.write_text("wrong horse")
        assert desk.person("sync", "mail", "--wait").code != 0
        yield desk
        desk.person("sources", "remove", "mail", "--yes").ok()


@situation("A source is held (`source.held`, `source.unreachable`, `source.invalid`)")
def its_disk_was_away_too_often(desk: Desk) -> None:
    desk.papers.rename(desk.home / "unplugged")
    said = [desk.person("sync", "papers", "--wait").code for _ in range(HELD_AFTER)]
    assert 0 not in said


@situation("No sync runs (`server.silent`, `worker.silent`)")
def paused_ruled_and_killed(desk: Desk) -> None:
    desk.person("sources", "pause", "papers", "--reason", "moving house").ok()
    now, hour = datetime.now().astimezone(), timedelta(hours=1)
    desk.person("throttle", "set", "all", "--blackout", f"{now - hour:%H:%M}-{now + hour:%H:%M}").ok()
    os.kill(desk.person.running.pid, signal.SIGKILL)
    assert desk.person.left() == []


@situation("After a restore from a backup")
def a_backup_of_yesterday(desk: Desk) -> None:
    kept = desk.home / "yesterday.db"
    desk.person("backup", kept).ok()
    desk.file("new.md", "# New\n\nThe spillway is new.\n")
    desk.person.sync("papers")
    desk.person("down").ok()
    desk.person("restore", kept).ok()
    desk.person("up", "--detach").ok()


@world("A host limits requests (`host.throttled`)")
@contextmanager
def asked_too_much(desk: Desk) -> Iterator[Desk]:
    secret = desk.home / ".hub-token"
    secret.touch(mode=0o600)
    secret.write_text(TOKEN)
    with serving_hub() as hub, closing(Proxy(hub.port)) as proxy:
        repo = hub.repo("ada/weir")
        repo.open("The sluice sticks", "It has to be mended.")
        where = ("github", f"{proxy.address}/ada/weir", "--set", "include=[issues]", "--consent")
        desk.person("up", "--detach").ok()
        desk.person("add", *where, "--name", "hub", "--secret", f"token=file:{secret}").ok()
        desk.person.sync("hub")
        repo.open("Later", "Moss grows on it.")
        proxy.harm = lambda exchange: exchange.respond(403, {"message": "secondary rate limit"}, Retry_After="3600")
        desk.person("sync", "hub", "--wait").ok()
        yield desk
        desk.person("throttle", "clear", "hub").ok()
        desk.person("sources", "remove", "hub", "--yes").ok()


@situation("A run that never ends (`sync.stuck`, `backlog.growing`)")
def its_process_stands_still(desk: Desk) -> None:
    for number in range(_MANY):
        desk.file(f"{number}.md", f"# Paper {number}\n")
    desk.person("sources", "remove", "papers", "--yes").ok()
    where = ("local_files", desk.papers, "--name", "papers", "--set", "preset=local")
    desk.person("add", *where).ok()
    desk.person("sync", "papers").ok()
    with closing(Ledger.inspect(Home(desk.person.home).database_url)) as ledger:
        until(lambda: ledger.queue.counts()["papers"].get(JobState.RUNNING, 0))
    for process in executing(desk.person, "papers"):
        process.suspend()
