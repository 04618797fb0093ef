"""Several faults in one system: each becomes an incident that names it within two minutes, and is over within two minutes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest

from deployments.server.running import Running
from tests.acceptance.incidents import events, letters, metric_reasons, open_reasons, page_reasons, running
from tests.acceptance.person import Person, upright, without_meaning
from tests.acceptance.small_disk import small_disk, within
from tests.connectors.github.proxy import Exchange, Proxy
from tests.connectors.github.server import serving_hub
from tests.connectors.imap.dovecot import PASSWORD, Dovecot
from tests.normalize.samples import pdf
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_SECONDS = 120
_MEGABYTES = 500
"""More than the free space below which a disk counts as full."""
_ISSUES, _FAST_PAGES, _SLOW_SECONDS = 3_000, 14, 10
"""A page lists a hundred issues. The pages after the first ones take so long that the listing lasts three minutes."""


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    home = tmp_path_factory.mktemp("incidents") / "home"
    variables = {"MAIL_PASSWORD": PASSWORD}
    with (
        small_disk(home, megabytes=_MEGABYTES) as disk,
        upright(without_meaning(replace(disk, variables=variables))) as person,
    ):
        yield person


@pytest.fixture
def mail(person: Person) -> Iterator[Dovecot]:
    with letters(person) as server:
        yield server


def within_two_minutes(event: str, reasons: Collection[str], reached: Callable[[], Collection[str]]) -> None:
    """Wait until all reasons have reached a state, and print the seconds that each took."""
    begun, left = time.monotonic(), set(reasons)

    def look() -> set[str]:
        for reason in left.intersection(reached()):
            print(f"{reason} {event} after {time.monotonic() - begun:.0f} s")
            left.remove(reason)
        return left

    until(look, lambda left: not left, seconds=_SECONDS)


def is_told(person: Person, *reasons: str) -> None:
    """Wait until command, page and metrics have open incidents of these reasons."""
    within_two_minutes(
        "opened", reasons, lambda: {*open_reasons(person)} & {*page_reasons(person)} & {*metric_reasons(person)}
    )
    assert person("status", "--exit-code").code == 1


def is_over(person: Person, *reasons: str) -> None:
    """Wait until these incidents are closed, and Prefect has heard of their start and end."""
    within_two_minutes(
        "closed",
        reasons,
        lambda: {*reasons}.difference(open_reasons(person), page_reasons(person), metric_reasons(person)),
    )
    both = {(event, reason) for event in ("opened", "closed") for reason in reasons}
    # Incidents that opened on a full disk had no number yet.
    until(lambda: {event[:2] for event in events(person)}, lambda found: both <= found, seconds=_SECONDS)


def test_several_faults_at_once_are_told_apart(person: Person, mail: Dovecot, tmp_path: Path) -> None:
    papers, notes = tmp_path / "papers", tmp_path / "notes"
    for folder in (papers, notes):
        folder.mkdir()
        person("add", "local_files", folder, "--name", folder.name).ok()
    for number in range(20):
        (notes / f"{number}.md").write_text(f"# Note {number}\n")
    person.sync("notes")

    mail.stop()
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
    mail.start()
    # Only a sync makes requests to a host.
    person.sync("letters")
    is_over(person, "source.unreachable")
    for number in range(6):
        (papers / f"{number}.pdf").write_bytes(pdf(f"The plan {number} of the weir."))
    person.sync("papers")
    person("deletions", "drop", "notes").ok()
    is_over(person, "parser.broken", "deletions.held")


def test_slow_host_and_the_queue_that_it_fills_are_no_incidents_at_first(person: Person) -> None:
    """The issues of a listing wait until it ends: the first thousand soon, the others when the host is fast again."""
    with serving_hub() as hub, closing(Proxy(hub.port)) as proxy:
        repo = hub.repo("ada/weir")
        repo.open()
        where = ("github", f"{proxy.address}/ada/weir", "--set", "include=[issues]", "--consent")
        person("add", *where, "--name", "weir").ok()
        person.sync("weir")
        for _ in range(_ISSUES):
            repo.open()
        proxy.forget()
        fast = threading.Event()

        def be_slow(exchange: Exchange) -> None:
            if exchange.number > _FAST_PAGES and "since=" in exchange.path:  # Health checks make no listing.
                fast.wait(_SLOW_SECONDS)

        proxy.harm = be_slow
        person("sync", "weir").ok()
        until(lambda: sum(person.source("weir")["jobs"].values()), lambda jobs: jobs >= 1_000, seconds=_SECONDS)
        time.sleep(90)
        assert open_reasons(person) == []
        fast.set()
        until(lambda: person.source("weir")["documents"], lambda number: number == _ISSUES + 1, seconds=_SECONDS)
        person("sources", "remove", "weir", "--yes").ok()


@pytest.mark.parametrize(
    ("reason", "pid"), [("server.silent", attrgetter("server_pid")), ("worker.silent", attrgetter("worker_pid"))]
)
def test_process_that_does_not_come_back_is_told(person: Person, reason: str, pid: Callable[[Running], int]) -> None:
    """A stopped process is killed and restarted within a minute, so the test stops it again and again."""

    def stopped_again() -> list[str]:
        with suppress(ProcessLookupError):
            os.kill(pid(running(person)), signal.SIGSTOP)
        return page_reasons(person)

    within_two_minutes("opened", [reason], stopped_again)
    is_told(person, reason)
    is_over(person, reason)
