"""Consent to a mail account on a real IMAP server: requested, enforced, withdrawn and purged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from catchment.runtime.home import Home
from catchment.runtime.watch_status import read
from tests.acceptance.person import Person
from tests.connectors.imap.dovecot import USER, Dovecot, message, serving
from tests.waiting import until

pytestmark = pytest.mark.acceptance

LETTER = "The zebrafinch of Winnipeg sings every single morning at the window."
SHEET = b"Forty quokkas were counted on the island before the ferry came.\n"
SHARED = b"The pump at North Mill was opened, and a new seal is ordered for March.\n"


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    """A server with two messages; one has an attachment, the other one has a copy of a local file attached."""
    for server in serving():
        with server.person() as mine:
            mine.append("INBOX", message(1, "Zebrafinch", LETTER))
            mine.append("INBOX", message(2, "Quokkas", files={"sheet.txt": SHEET, "pump.txt": SHARED}))
        yield server


@pytest.fixture(scope="module")
def person(person: Person, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A user with a folder `pumps` in the library."""
    folder = tmp_path_factory.mktemp("pumps")
    (folder / "pump.txt").write_bytes(SHARED)
    person("add", "local_files", folder, "--name", "pumps").ok()
    person.sync("pumps")
    yield person
    for name in ("pumps", "letters"):
        person("sources", "remove", name, "--yes").ok()


def holding(person: Person, *words: bytes) -> set[Path]:
    """Return the files of the home that contain one of these words, including Prefect's database and the logs."""
    return {path for path, held in person.files() if any(word in held for word in words)}


def in_memory(person: Person, words: bytes) -> set[str]:
    """Return the command lines of the processes of the home that contain the words in memory."""
    holders = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError, ValueError):
            if process.environ().get("CATCHMENT_HOME") == str(person.home) and _is_in_memory(process.pid, words):
                holders.add(" ".join(process.cmdline()))
    return holders


def _is_in_memory(pid: int, words: bytes) -> bool:
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    regions = [line.split()[0].split("-") for line in maps if line.split()[1].startswith("rw")]
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for first, end in regions:
            with suppress(OSError, ValueError, OverflowError):
                memory.seek(int(first, 16))
                if words in memory.read(int(end, 16) - int(first, 16)):
                    return True
    return False


def found(person: Person, words: str) -> list[str]:
    """Return the sources that contain these words."""
    return [hit["source"] for hit in person.hits(words)]


def test_mail_is_read_only_with_consent(person: Person, dovecot: Dovecot) -> None:
    account = f"{USER}@127.0.0.1:{dovecot.port}"
    add = ["add", "imap", account, "--name", "letters", "--set", "security=none", "--watch"]
    add += ["--secret", "password=env:MAIL_PASSWORD"]
    person(*add).refused(5, "--consent")
    assert "letters" not in [source["name"] for source in person("status", "--json").ok().json["sources"]]

    person(*add, "--consent", "--for", "90d").ok()
    # The watcher may have synced first.
    person.sync("letters")
    assert person.source("letters")["documents"] == 4
    assert (found(person, "zebrafinch"), found(person, "quokkas")) == (["letters"], ["letters", "letters"])
    assert "in 89 d" in person("consent", "list").ok().out
    until(lambda: read(Home(person.home)) or {}, lambda said: "letters" in said and not said["letters"].reason)

    secret = b"Winnipeg sings every single morning"
    assert in_memory(person, secret), "the page has answered with it"
    # A sync of the watcher that still runs keeps its memory until it ends.
    until(lambda: person("syncs", "list", "--json").ok().json, lambda syncs: all(sync["ended"] for sync in syncs))
    revoked = person("consent", "revoke", "letters", "--yes", "--json").ok()
    assert "the page and the runner were replaced" in revoked.err
    assert in_memory(person, secret) == set()
    proof = revoked.json
    assert (proof["holds"], proof["items"], set(proof["left"].values())) == (True, 4, {0})
    assert proof["passages"] >= 2
    assert (proof["found"], proof["in_files"], proof["copies"]) == (0, 0, [])

    assert (found(person, "zebrafinch"), found(person, "quokkas")) == ([], [])
    assert {"pumps", "letters"}.intersection(found(person, "pump")) == {"pumps"}
    assert holding(person, b"zebrafinch", b"Zebrafinch", b"quokkas", b"Quokkas") == set()
    person("ledger", "check", "--deep").ok()

    # Neither a sync, the schedule nor the watcher reads the account again.
    person("sync", "letters").refused(5, "withdrawn", "catchment consent give letters")
    until(lambda: read(Home(person.home)) or {}, lambda said: "letters" not in said)
    assert "no consent" in person("status").ok().out
    assert "withdrawn" in person("why", "INBOX;UIDVALIDITY=1;UID=1").ok().out

    person("consent", "give", "letters").ok()
    person.sync("letters")
    assert person.source("letters")["documents"] == 4
    assert found(person, "zebrafinch") == ["letters"]
