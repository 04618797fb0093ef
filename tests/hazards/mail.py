"""Hazards of mail servers, networks and mail programs: a real Dovecot behind a proxy that injects faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from tests.acceptance.person import PROJECT, Person, upright
from tests.connectors.imap.dovecot import PASSWORD, USER, Dovecot, message, serving
from tests.connectors.imap.proxy import Exchange, Proxy
from tests.hazards.catchment import Watched, documents, held
from tests.hazards.model import Area, Hazard, Verdict, judge

_ODD = PROJECT / "tests" / "normalize" / "golden" / "mail"
_TRY_AGAIN = 10


@dataclass(frozen=True)
class Box(Watched):
    """A mailbox of the account, and a source that reads it and its children through the proxy."""

    dovecot: Dovecot
    truth: dict[str, str | None] = field(default_factory=dict)

    def fill(self, count: int) -> None:
        """Append messages to the mailbox."""
        with self.dovecot.person() as mailbox:
            mailbox.create_folder(self.name)
            for number in range(count):
                subject, text = f"{self.name} {number}", f"The gauge at {self.name} shows {number} in all.\n"
                # Each message of the account has a number, and thus a unique Message-ID.
                mailbox.append(self.name, message(crc32(subject.encode()), subject, text))
                self.truth[subject] = text.strip()

    def seen(self, noted: Verdict | None = None) -> Verdict:
        """Compare the library with the mailbox; return the problems, including those noted before."""
        return judge(self.truth, held(self.person, self.name, lambda locator, title: title or locator), noted)


@dataclass(frozen=True)
class Account:
    """A user with an account on a server; each hazard has its own mailbox in it."""

    person: Person
    dovecot: Dovecot
    proxy: Proxy

    def box(self, name: str, count: int = 4, *, host: str = "127.0.0.1") -> Box:
        """Create a synced mailbox with this many messages."""
        box = Box(name, self.person, self.dovecot)
        box.fill(count)
        self.add(box, host)
        assert box.sync() == 0
        return box

    def add(self, box: Box, host: str = "127.0.0.1") -> None:
        """Add the mailbox as a source."""
        where = ["imap", f"{USER}@{host}:{self.proxy.port}", "--name", box.name, "--consent"]
        settings = ["--set", "security=none", "--set", f"include=[{box.name}, {box.name}/*]"]
        self.person("add", *where, *settings, "--secret", "password=env:MAIL_PASSWORD").ok()

    @contextmanager
    def harm(self, harm: Callable[[Exchange], None]) -> Iterator[None]:
        """Disturb every command within the block."""
        self.proxy.harm = harm
        try:
            yield
        finally:
            self.proxy.harm = None


@contextmanager
def account(folder: Path) -> Iterator[Account]:
    """Yield a mail server, a proxy in front of it, and a user with a running system."""
    for dovecot in serving():
        proxy = Proxy(dovecot.port)
        try:
            with upright(Person(folder / "home", variables={"MAIL_PASSWORD": PASSWORD})) as person:
                yield Account(person, dovecot, proxy)
        finally:
            proxy.close()


def numbered_anew(account: Account) -> Verdict:
    box = account.box("renumbered")
    before = documents(account.person, box.name)
    account.dovecot.renumber(box.name)
    verdict = Verdict()
    verdict.expect(box.sync() == 0, "the sync failed")
    verdict.expect(documents(account.person, box.name) == before, "its documents are others")
    return box.seen(verdict)


def numbered_anew_with_less_in_it(account: Account) -> Verdict:
    box = account.box("fewer")
    with account.dovecot.person() as mailbox:
        mailbox.select_folder(box.name)
        mailbox.delete_messages(mailbox.search()[:2])
        mailbox.expunge()
    account.dovecot.renumber(box.name)
    box.sync()
    return box.seen()


def a_folder_is_renamed(account: Account) -> Verdict:
    box = account.box("harbour")
    with account.dovecot.person() as mailbox:
        mailbox.create_folder("harbour/pier")
        mailbox.append("harbour/pier", message(71, "At the pier", "Boats lie at the pier.\n"))
    box.truth["At the pier"] = "Boats lie at the pier."
    box.sync()
    before = documents(account.person, box.name)
    with account.dovecot.person() as mailbox:
        mailbox.rename_folder("harbour/pier", "harbour/quay")
    verdict = Verdict()
    verdict.expect(box.sync() == 0, "the sync failed")
    verdict.expect(documents(account.person, box.name) == before, "its documents are others")
    return box.seen(verdict)


def a_message_is_copied_and_one_moved(account: Account) -> Verdict:
    box = account.box("moving")
    with account.dovecot.person() as mailbox:
        mailbox.create_folder("moving/kept")
        mailbox.select_folder(box.name)
        first, second = mailbox.search()[:2]
        mailbox.move([first], "moving/kept")
        mailbox.copy([second], "moving/kept")
    box.sync()
    copied = box.seen()
    # A copy is a separate message; a moved message is not.
    copied.expect(copied.doubled == ["moving 1"], f"there twice: {copied.doubled}")
    copied.doubled.clear()
    return copied


def expunged_in_the_middle(account: Account) -> Verdict:
    box = Box("expunged", account.person, account.dovecot)
    box.fill(8)
    account.add(box)
    expunged: list[int] = []

    def expunge(exchange: Exchange) -> None:
        if not expunged and b"BODY" in exchange.line and b"UID FETCH" in exchange.line:
            with account.dovecot.person() as mailbox:
                mailbox.select_folder(box.name)
                expunged.extend(mailbox.search()[-1:])
                mailbox.delete_messages(expunged)
                mailbox.expunge()

    with account.harm(expunge):
        code = box.sync()
    box.sync()
    del box.truth["expunged 7"]
    verdict = Verdict()
    verdict.expect(bool(expunged), "nothing was expunged")
    verdict.expect(code == 0, f"ended with {code}")
    return box.seen(verdict)


def cut_in_the_middle(account: Account) -> Verdict:
    box = Box("cut", account.person, account.dovecot)
    box.fill(30)
    account.add(box)
    account.proxy.most = 4_000
    code = box.sync()
    verdict = Verdict()
    verdict.expect(account.proxy.most is None, "nothing was cut")
    verdict.expect(code == 0, f"ended with {code}")
    return box.seen(verdict)


def cut_at_every_fifth_command(account: Account) -> Verdict:
    box = Box("ragged", account.person, account.dovecot)
    box.fill(30)
    account.add(box)
    with account.harm(lambda exchange: exchange.cut() if exchange.number % 5 == 4 else None):
        for _ in range(3):
            if box.sync() == 0:
                break
    box.person("sources", "resume", box.name)
    box.sync()
    return box.seen()


def the_server_is_down(account: Account) -> Verdict:
    box = account.box("down")
    account.dovecot.stop()
    code = box.sync()
    verdict = box.seen()
    verdict.expect(code != 0, "the sync did not fail")
    account.dovecot.start()
    verdict.expect(box.sync() == 0, "the sync after it failed")
    return box.seen(verdict)


def the_login_is_revoked(account: Account) -> Verdict:
    box = account.box("revoked")

    def refuse(exchange: Exchange) -> None:
        if exchange.command in (b"LOGIN", b"AUTHENTICATE"):
            exchange.answer("{tag} NO [AUTHENTICATIONFAILED] Authentication failed.")

    with account.harm(refuse):
        box.sync()
        asked = len(account.proxy.commands)
        refused = box.sync()
        verdict = box.seen()
        verdict.expect(box.state() == "held", f"the source is {box.state()}, and not held")
        verdict.expect(refused == _TRY_AGAIN, f"the next sync ended with {refused}")
        verdict.expect(len(account.proxy.commands) == asked, "the server was asked again")
    box.recovers(verdict)
    return box.seen(verdict)


def the_folder_is_emptied(account: Account) -> Verdict:
    box = account.box("emptied", 20)
    with account.dovecot.person() as mailbox:
        mailbox.select_folder(box.name)
        mailbox.delete_messages(mailbox.search())
        mailbox.expunge()
    box.sync()
    return box.seen()


def odd_messages(account: Account) -> Verdict:
    box = Box("odd", account.person, account.dovecot)
    box.fill(4)
    messages = sorted(_ODD.glob("*.eml"))
    with account.dovecot.person() as mailbox:
        for file in messages:
            mailbox.append(box.name, file.read_bytes())
        there = mailbox.folder_status(box.name, ["MESSAGES"])[b"MESSAGES"]
    account.add(box)
    verdict = Verdict()
    verdict.expect(box.sync() == 0, "the sync failed")
    jobs = box.person("jobs", "list", "--source", box.name, "--limit", "10000", "--json").ok().json
    whole = [job for job in jobs if ";PART=" not in job["item"]]
    ended = [job for job in whole if job["state"] in ("succeeded", "quarantined", "skipped")]
    verdict.expect(len(ended) == there, f"{len(ended)} of {there} are held or named")
    neighbours = box.seen()
    verdict.silent, verdict.stale = neighbours.silent, neighbours.stale
    return verdict


def asked_to_wait(account: Account) -> Verdict:
    # A separate host name: when a host demands a wait, all its sources wait.
    box = Box("waiting", account.person, account.dovecot)
    box.fill(6)
    account.add(box, "localhost")
    refused: list[int] = []

    def limit(exchange: Exchange) -> None:
        if exchange.command == b"UID FETCH" and not refused:
            refused.append(exchange.number)
            exchange.answer("{tag} NO [LIMIT] Suggested Backoff Time: 3000 milliseconds")

    with account.harm(limit):
        code = box.sync()
    verdict = Verdict()
    verdict.expect(bool(refused), "nothing was refused")
    verdict.expect(code == 0, f"ended with {code}")
    verdict.expect(box.state() == "active", f"the source is {box.state()}")
    box.person.sync_when_ready(box.name)
    return box.seen(verdict)


AREA = Area(
    "mail",
    account,
    (
        Hazard("UIDVALIDITY changes", "the same documents", numbered_anew),
        Hazard("UIDVALIDITY changes, two are missing", "no deletion", numbered_anew_with_less_in_it),
        Hazard("a folder is renamed", "the same documents", a_folder_is_renamed),
        Hazard("a message is moved, another copied", "moved once, copied twice", a_message_is_copied_and_one_moved),
        Hazard("a message is expunged while it is read", "the others are found", expunged_in_the_middle),
        Hazard("a folder is emptied", "deletions held for a decision", the_folder_is_emptied),
        Hazard("the connection is cut in a response", "each message once", cut_in_the_middle),
        Hazard("the connection is cut repeatedly", "each message once", cut_at_every_fifth_command),
        Hazard("the server is down", "no deletion", the_server_is_down),
        Hazard("the login is revoked", "one attempt, then held", the_login_is_revoked),
        Hazard("the server requests a pause", "waits, then continues", asked_to_wait),
        Hazard("a hundred odd messages", "each is stored or reported", odd_messages),
    ),
)
