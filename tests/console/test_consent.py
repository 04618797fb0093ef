"""`catchment consent`, and the confirmation in `sources add`, with a real ledger and no mail server."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assistant.answers import StatusArguments
from assistant.shared_library import AssistantLibrary
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.runtime.home import Home
from catchment.settings import Policy
from catchment.sync.source_sync import open_sync
from connectors.imap import Imap
from connectors.local_files import LocalFiles
from console import render
from tests.console.conftest import Cli
from tests.ledger.world import Clock, World, note
from tests.waiting import PATIENCE

MAIL = ("add", "imap", "ada@127.0.0.1:1", "--name", "mail", "--set", "security=none")
SECRET = ("--secret", "password=env:MAIL_PASSWORD")


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the probe of a mail server succeed."""
    monkeypatch.setattr(Imap, "probe", lambda _self: "127.0.0.1: 2 of 2 folders")


@pytest.fixture
def mail(cli: Cli, answering: None, state: Path) -> Path:
    """Return a home with a mail account, with consent for 90 days and no sync yet."""
    assert cli(*MAIL, *SECRET, "--consent", "--for", "90d").code == 0
    return state


def set_consent(state: Path, name: str, until: datetime | None) -> None:
    with closing(Ledger.open(Home(state).database_url)) as ledger:
        source = ledger.sources.get(name)
        scopes = {consent.scope for consent in ledger.consents.all(name)}
        ledger.consents.give(source.id, scopes, "operator:anna", until)


def states(cli: Cli, name: str = "mail") -> dict[str, str]:
    rows = cli("consent", "list", "--json").json
    return {row["scope"]: row["state"] for row in rows if row["source"] == name}


def test_mail_is_not_added_without_consent_and_nothing_is_asked_of_its_server(
    cli: Cli, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Imap, "probe", lambda _self: pytest.fail("the server was asked"))
    said = cli(*MAIL, *SECRET)
    assert (said.code, said.out, said.err.count("\n")) == (5, "", 1)
    assert "mail: no consent to read messages, attachments; pass --consent to give it" in said.err
    assert not (state / "sources.yaml").exists()
    assert cli("consent", "list", "--json").json == []


def test_consent_is_recorded_with_what_it_is_for_by_whom_and_until_when(cli: Cli, mail: Path) -> None:
    rows = cli("consent", "list", "--json").json
    assert [(row["source"], row["scope"], row["state"]) for row in rows] == [
        ("mail", "attachments", "given"),
        ("mail", "messages", "given"),
    ]
    assert rows[0]["by"].startswith("operator")
    left = datetime.fromisoformat(rows[0]["expires"]) - datetime.now(UTC)
    assert timedelta(days=89) < left <= timedelta(days=90)
    shown = cli("consent", "show", "mail").out
    assert "files attached to these messages" in shown and "stays in the library on this machine" in shown
    assert "in 89 d" in cli("consent", "list").out


def test_only_what_the_source_is_set_to_read_is_agreed_to(cli: Cli, answering: None) -> None:
    assert cli(*MAIL, *SECRET, "--set", "attachments=false", "--consent").code == 0
    assert states(cli) == {"messages": "given"}


def test_of_files_on_this_machine_adding_them_is_the_consent(filled: Path, cli: Cli) -> None:
    [row] = cli("consent", "list", "--json").json
    assert (row["source"], row["scope"], row["state"], row["expires"]) == ("notes", "content", "given", None)
    assert "no expiry" in cli("consent", "list").out


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 5)])
def test_on_a_terminal_it_is_asked_in_plain_words(state: Path, answer: str, code: int) -> None:
    ours, theirs = pty.openpty()
    script = (
        "import sys\n"
        "from connectors.imap import Imap\n"
        "Imap.probe = lambda self: 'two folders'\n"
        "from console.main import main\n"
        "sys.exit(main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, *MAIL, *SECRET], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
    ) as command:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        heard = b""
        while b"Do you agree?" not in heard:
            heard += os.read(ours, 1_000)
        assert command.wait(PATIENCE) == code
    os.close(ours)
    said = " ".join(heard.decode().split())
    assert "messages: messages in the selected folders" in said
    assert "stays in the library on this machine; nothing at the source is changed" in said
    assert "catchment consent revoke mail" in said
    assert (state / "sources.yaml").exists() is (code == 0)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("give", "nail"), 4, "did you mean mail"),
        (("show", "nail"), 4, "did you mean mail"),
        (("revoke", "nail", "--yes"), 4, "did you mean mail"),
        (("give", "mail", "--for", "ever"), 2, "15m, 2h, 30d"),
        (("give", "mail", "--for", "999999w"), 2, "use a shorter duration"),
        (("revoke", "mail"), 2, "--yes"),
        (("revoke", "mail", "--scope", "drafts", "--yes"), 4, "choose attachments, messages"),
    ],
)
def test_what_cannot_be_is_refused(cli: Cli, mail: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    result = cli("consent", *arguments)
    assert (result.code, said in result.err) == (code, True), result
    assert set(states(cli).values()) == {"given"}


def test_a_consent_that_has_ended_shows_everywhere_and_is_given_anew(cli: Cli, mail: Path) -> None:
    set_consent(mail, "mail", datetime.now(UTC) - timedelta(minutes=1))
    [source] = cli("status", "--json").json["sources"]
    assert (source["state"], source["consent"]["state"]) == ("active", "expired")
    shown = cli("status").out
    assert "no consent" in shown
    assert "mail: consent expired; catchment consent give mail" in shown
    findings = {row["probe"]: row for row in cli("doctor", "--json").json["findings"]}
    assert findings["consent mail"]["verdict"] == "warn"
    assert findings["consent mail"]["remedy"] == "catchment consent give mail"
    for command in (("sync", "mail"), ("sources", "test", "mail")):
        refused = cli(*command)
        assert (refused.code, "consent expired" in refused.err) == (5, True)
    why = cli("why", "INBOX;UIDVALIDITY=1;UID=7")
    assert (why.code, "catchment consent give mail" in why.out) == (0, True)
    assert cli("consent", "give", "mail", "--for", "1w").out.startswith("mail: consent given until")
    assert set(states(cli).values()) == {"given"}
    assert cli("sources", "test", "mail").code == 0


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("kalman filte", "'kalman filte': no such item or file; did you mean Kalman filter.md?"),
        ("/nowhere/x.md", "'/nowhere/x.md': no such item or file, and outside all sources (mail)"),
        ("Balkony", "'Balkony': no such item or file;"),
    ],
)
def test_source_without_consent_does_not_hide_that_a_name_is_unknown(
    cli: Cli, mail: Path, asked: str, answer: str
) -> None:
    world = World(Home(mail).database_url, Clock(), Ledger.open(Home(mail).database_url))
    world.ingest(note("Kalman filter.md"))
    world.ledger.close()
    set_consent(mail, "mail", datetime.now(UTC) - timedelta(minutes=1))
    why = cli("why", asked)
    first, second = why.out.splitlines()
    assert first.startswith(answer)
    assert second.startswith("a source that is not read may have it: mail (")
    set_consent(mail, "mail", None)
    refused = cli("why", asked)
    assert (refused.code, answer in refused.err) == (4, True)


def test_health_asks_no_host(cli: Cli, mail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Imap, "probe", lambda _: pytest.fail("the host was asked"))
    cli("health", "--json")
    set_consent(mail, "mail", datetime.now(UTC) - timedelta(minutes=1))
    cli("health", "--json")


def test_a_consent_that_ends_soon_is_announced(cli: Cli, mail: Path) -> None:
    assert "consent" not in cli("status").out
    set_consent(mail, "mail", datetime.now(UTC) + timedelta(days=3))
    assert "mail: consent expires on " in cli("status").out
    findings = {row["probe"]: row for row in cli("doctor", "--json").json["findings"]}
    assert findings["consent mail"]["verdict"] == "warn"
    assert findings["consent mail"]["message"].startswith("consent expires on ")


def test_taking_it_back_deletes_everything_and_prints_the_proof(filled: Path, cli: Cli) -> None:
    assert cli("search", "swarm", "--json").json
    said = cli("consent", "revoke", "notes", "--yes")
    assert said.code == 0, said
    assert "notes: consent withdrawn; 6 items deleted" in said.out
    assert "Searched for 2 passages found only in notes: 0 in the library" in said.out
    assert cli("search", "swarm", "--json").json == []
    assert states(cli, "notes") == {"content": "withdrawn"}
    [source] = cli("status", "--json").json["sources"]
    assert (source["documents"], source["consent"]["state"]) == (0, "withdrawn")
    assert cli("ledger", "check", "--deep").code == 0
    proof = cli("consent", "revoke", "notes", "--yes", "--json").json
    assert (proof["holds"], proof["items"], set(proof["left"].values())) == (True, 0, {0})
    assert cli("sources", "list", "--json").json[0]["standing"]["name"] == "notes"


def test_revocation_names_the_open_connection_of_an_assistant(filled: Path, state: Path, cli: Cli) -> None:
    assert "assistant" not in cli("consent", "revoke", "notes", "--yes").err
    AssistantLibrary(Home(state)).status(StatusArguments())
    assert "an open connection of an assistant may have copies" in cli("consent", "revoke", "notes", "--yes").err


def test_revocation_says_what_was_verified_of_short_texts_and_names_backups(
    cli: Cli, state: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    for n in range(3):
        (folder / f"{n}.md").write_text(f"eel {n}")
    assert cli("add", "local_files", str(folder), "--name", "papers").code == 0
    settings = LocalFiles.settings(root=folder)
    with open_sync(Home(state), LocalFiles(settings), "papers", Policy(), Priority.NORMAL) as sync:
        sync.discover()
        while (token := sync.claim(250)) is not None:
            sync.process(token)
        sync.finish("completed")
    assert cli("backup").code == 0
    [backup] = (state / "backups").iterdir()
    said = cli("consent", "revoke", "papers", "--yes")
    assert said.code == 0
    assert (
        "Verified: 0 of 3 documents, 0 of 3 chunks found only in papers, 0 of 0 cache entries, "
        "and 0 of 0 items with raw content are left." in said.out
    )
    assert "no text has at least 24 bytes" in said.out and "Searched for" not in said.out
    assert f"backups/{backup.name}: older copy that still contains data of papers" in said.err
    assert f"rm -- {backup}" in said.err
    assert "backups outside the home folder were not searched" in said.err


def test_one_scope_is_taken_back_alone(cli: Cli, mail: Path) -> None:
    assert cli("consent", "revoke", "mail", "--scope", "attachments", "--yes").code == 0
    assert states(cli) == {"attachments": "withdrawn", "messages": "given"}
    refused = cli("sources", "test", "mail")
    assert (refused.code, "mail (attachments): consent withdrawn" in refused.err) == (5, True)


def test_a_purge_that_was_broken_off_is_told_until_it_is_finished(cli: Cli, mail: Path) -> None:
    with closing(Ledger.open(Home(mail).database_url)) as ledger:
        source = ledger.sources.put("mail", "imap", Priority.NORMAL)
        ledger.consents.withdraw(source.id, {"messages", "attachments"}, "operator:anna")
    assert "mail: deletion of revoked data is incomplete; catchment consent revoke mail" in cli("status").out
    doctor = cli("doctor", "--json")
    assert [row["verdict"] for row in doctor.json["findings"] if row["probe"] == "consent mail"] == ["fail"]
    assert cli("consent", "give", "mail").code == 5
    assert cli("consent", "revoke", "mail", "--yes").code == 0
    assert cli("consent", "give", "mail").code == 0


def test_whoever_adds_a_removed_account_again_is_asked_again(cli: Cli, mail: Path) -> None:
    assert cli("sources", "remove", "mail", "--yes").code == 0
    assert cli("consent", "list", "--json").json == []
    assert cli(*MAIL, *SECRET).code == 5


def test_on_a_terminal_the_count_of_what_was_deleted_makes_room_for_the_proof(filled: Path) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "console", "consent", "revoke", "notes", "--yes"]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as command:
        os.close(theirs)
        heard = b""
        while b"Searched for" not in heard:
            heard += os.read(ours, 1_000)
        assert command.wait(PATIENCE) == 0
    os.close(ours)
    shown = [line.rpartition("\x1b[K")[2] for line in heard.decode().splitlines()]
    assert "notes: consent withdrawn; 6 items deleted" in shown


def test_terminal_is_asked_before_a_removal_and_for_its_reason(
    cli: Cli, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "interactive", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert cli("sources", "remove", "notes").code != 0
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\nmoved to another machine\n"))
    assert cli("sources", "remove", "notes").out.endswith("removed notes\n")
    removed = cli("audit", "list", "--limit", "1", "--json").json[0]
    assert (removed["event"], removed["source"], removed["reason"]) == ("removed", "notes", "moved to another machine")
