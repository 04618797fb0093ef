"""Several faults in one system: each becomes an incident that names it within two minutes, and is over within two minutes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest

from deployments.server.running import Running
from tests.acceptance.incidents import events, open_reasons, page_reasons, running
from tests.acceptance.person import Person, upright, without_meaning
from tests.acceptance.small_disk import small_disk, within
from tests.connectors.imap.dovecot import PASSWORD, USER, Dovecot, message, serving
from tests.normalize.samples import pdf
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_SECONDS = 120
_MEGABYTES = 500
"""More than the free space below which a disk counts as full."""


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    home = tmp_path_factory.mktemp("incidents") / "home"
    variables = {"MAIL_PASSWORD": PASSWORD}
    with (
        small_disk(home, megabytes=_MEGABYTES) as disk,
        upright(without_meaning(replace(disk, variables=variables))) as person,
    ):
        yield person


@pytest.fixture(scope="module")
def dovecot(person: Person) -> Iterator[Dovecot]:
    """A server with a message, whose account is synced as `letters`."""
    for server in serving():
        with server.person() as mine:
            mine.append("INBOX", message(1, "The sluice"))
        account = (
            "imap",
            f"{USER}@127.0.0.1:{server.port}",
            "--name",
            "letters",
            "--set",
            "security=none",
            "--consent",
        )
        person("sources", "add", *account, "--secret", "password=env:MAIL_PASSWORD").ok()
        person.sync("letters")
        yield server


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long a block takes."""
    begun = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - begun:.0f} s")


def is_told(person: Person, *reasons: str) -> None:
    """Wait until command and page have open incidents of these reasons."""
    for reason in reasons:
        with timed(f"{reason} opened"):
            until(lambda reason=reason: reason in open_reasons(person), seconds=_SECONDS)
        assert reason in page_reasons(person)
    assert person("status", "--exit-code").code == 1


def is_over(person: Person, *reasons: str) -> None:
    """Wait until these incidents are closed, and Prefect has heard of their start and end."""
    for reason in reasons:
        with timed(f"{reason} closed"):
            until(lambda reason=reason: reason not in open_reasons(person), seconds=_SECONDS)
        assert reason not in page_reasons(person)
        both = {("opened", reason), ("closed", reason)}
        # What opened on a full disk had no number yet.
        until(lambda both=both: both <= {event[:2] for event in events(person)}, seconds=_SECONDS)


def test_several_faults_at_once_are_told_apart(person: Person, dovecot: Dovecot, tmp_path: Path) -> None:
    papers, notes = tmp_path / "papers", tmp_path / "notes"
    for folder in (papers, notes):
        folder.mkdir()
        person("sources", "add", "local_files", folder, "--name", folder.name).ok()
    for number in range(20):
        (notes / f"{number}.md").write_text(f"# Note {number}\n")
    person.sync("notes")

    dovecot.stop()
    assert person("sync", "letters", "--wait").code != 0
    for number in range(6):
        (papers / f"{number}.pdf").write_text("%PDF-1.4 cut")
    person.sync("papers")
    for number in range(15):
        (notes / f"{number}.md").unlink()
    person.sync("notes")
    within(person, "dd", "if=/dev/zero", f"of={person.home}/fill", "bs=1M", check=False)
    is_told(person, "source.unreachable", "parser.broken", "deletions.held", "disk.full")

    within(person, "rm", f"{person.home}/fill")
    is_over(person, "disk.full")
    dovecot.start()
    is_over(person, "source.unreachable")
    for number in range(6):
        (papers / f"{number}.pdf").write_bytes(pdf(f"The plan {number} of the weir."))
    person.sync("papers")
    person("deletions", "drop", "notes").ok()
    is_over(person, "parser.broken", "deletions.held")


@pytest.mark.parametrize(
    ("reason", "pid"), [("server.silent", attrgetter("server_pid")), ("worker.silent", attrgetter("worker_pid"))]
)
def test_process_that_does_not_come_back_is_told(person: Person, reason: str, pid: Callable[[Running], int]) -> None:
    """A process that stops is killed and started again within a minute, so it has to be stopped again and again."""

    def stopped_again() -> bool:
        with suppress(ProcessLookupError):
            os.kill(pid(running(person)), signal.SIGSTOP)
        return reason in page_reasons(person)

    with timed(f"{reason} opened"):
        until(stopped_again, seconds=_SECONDS)
    is_told(person, reason)
    is_over(person, reason)
