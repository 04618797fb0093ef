"""Mail end to end: a real IMAP server, the installed command, its server and its worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from catchment.runtime.home import Home
from catchment.runtime.watch_status import read
from deployments.server.client import api
from tests.acceptance.person import Person
from tests.connectors.imap.dovecot import PASSWORD, USER, Dovecot, message, serving
from tests.normalize.samples import pdf
from tests.waiting import until

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    """A server with three messages, one of which has an attachment."""
    for server in serving():
        with server.person() as person:
            person.append("INBOX", message(1, "The sluice", "The sluice has to be mended before the flood.\n"))
            person.append("INBOX", message(2, "Hive 03", files={"varroa.txt": b"Forty mites on the board.\n"}))
            person.create_folder("Archiv/Bäche")
            person.append("Archiv/Bäche", message(3, "The gauge", "The gauge stands at the weir.\n"))
        yield server


@pytest.fixture(scope="module")
def person(person: Person, dovecot: Dovecot) -> Iterator[Person]:
    """A user after a sync of the account as `mail`."""
    said = person(*_adding(dovecot, "mail"), "--secret", "password=env:MAIL_PASSWORD", "--watch").ok()
    assert "2 of 2 folders" in said.out
    person.sync("mail")
    yield person
    for name in ("mail", "blocked", "filed", "plans", "drawings"):
        person("sources", "remove", name, "--yes")


def _adding(dovecot: Dovecot, name: str) -> list[str]:
    account = f"{USER}@127.0.0.1:{dovecot.port}"
    return ["add", "imap", account, "--name", name, "--set", "security=none", "--consent"]


def items(person: Person, words: str) -> list[str]:
    """Return the messages that contain these words."""
    return [hit["item"] for hit in person.hits(words, "mail")]


def test_messages_and_attachments_are_found(person: Person) -> None:
    (sluice,) = person.hits("sluice", "mail")
    assert sluice["title"] == "The sluice"
    assert sluice["item"].startswith("INBOX;UIDVALIDITY=")
    (mites,) = person.hits("mites", "mail")
    assert (mites["title"], mites["item"].rpartition(";")[2]) == ("varroa", "PART=2")
    (gauge,) = items(person, "gauge")
    assert gauge.startswith("Archiv/Bäche;")
    assert "Grace Hopper" in person("show", str(sluice["document"])).ok().out
    assert person.source("mail")["documents"] == 4


def test_source_test_reports_the_server_capabilities(person: Person) -> None:
    said = person("sources", "test", "mail").ok().out
    assert "2 of 2 folders" in said
    assert "not encrypted, QRESYNC, CONDSTORE, IDLE" in said


def test_sync_without_changes_queues_no_jobs(person: Person) -> None:
    assert person.sync("mail")["listed"] == 0


def test_a_moved_and_a_deleted_message_are_followed(person: Person, dovecot: Dovecot) -> None:
    before = person.hits("sluice", "mail")[0]["document"]
    with dovecot.person() as mine:
        mine.select_folder("INBOX")
        first, second = mine.search()
        mine.move([first], "Archiv/Bäche")
        mine.delete_messages([second])
        mine.expunge()
    # The watcher may have synced first.
    person.sync("mail")
    (moved,) = person.hits("sluice", "mail")
    assert (moved["document"], moved["item"].partition(";")[0]) == (before, "Archiv/Bäche")
    assert items(person, "mites") == []
    assert "in the library as document" in person("why", moved["item"]).ok().out
    person("ledger", "check", "--deep").ok()


def test_new_message_is_ingested_automatically(person: Person, dovecot: Dovecot) -> None:
    until(lambda: read(Home(person.home)) or {}, lambda said: "mail" in said and not said["mail"].reason)
    with dovecot.person() as mine:
        mine.append("INBOX", message(20, "Swarm", "A swarm hangs in the old pear tree.\n"))
    assert until(lambda: items(person, "pear"), bool)


def test_a_secret_may_be_kept_in_a_block(person: Person, dovecot: Dovecot) -> None:
    block = [*_adding(dovecot, "blocked"), "--secret", "password=block:mail-password"]
    person(*block).refused(3, "Secret block mail-password: not found", "in the Prefect UI")
    with api(person.running) as client:
        kind = client.get("/block_types/slug/secret").raise_for_status().json()["id"]
        schema = client.post("/block_schemas/filter", json={"block_schemas": {"block_type_id": {"any_": [kind]}}})
        made = {"name": "mail-password", "block_type_id": kind, "block_schema_id": schema.json()[0]["id"]}
        client.post("/block_documents/", json={**made, "data": {"value": PASSWORD}}).raise_for_status()
    person(*block).ok()
    assert person.sync("blocked")["succeeded"] == 3


def test_refused_login_pauses_the_source_and_names_the_remedy(person: Person, dovecot: Dovecot, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    by_file = [*_adding(dovecot, "filed"), "--secret", f"password=file:{secret}"]
    person(*by_file).refused(3, "chmod 600 password")
    secret.chmod(0o600)
    person(*by_file).ok()
    secret.write_text("wrong horse")
    assert person("sync", "filed", "--wait").code != 0
    source = person.source("filed")
    assert source["state"] == "held"
    person("sync", "filed").refused(10, "login refused (AUTHENTICATIONFAILED)", "app password")
    secret.write_text(PASSWORD)
    person("sources", "resume", "filed").ok()
    until(lambda: person.source("filed")["documents"] == 3)


def test_failed_addition_of_an_account_reports_the_reason(person: Person, dovecot: Dovecot) -> None:
    add = ["add", "imap"]
    person(*add, "nobody", "--name", "no").refused(2, "user@host")
    person(*add, "ada@mail.example.org", "--name", "no", "--set", "security=none").refused(2)
    person(*add, "ada@mail.example.org", "--name", "no").refused(2, "--secret password=env:VARIABLE")
    person(*_adding(dovecot, "no"), "--secret", "password=env:NO_SUCH").refused(3, "NO_SUCH: variable not set")
    person(*_adding(dovecot, "no"), "--set", "host=x", "--secret", "password=env:MAIL_PASSWORD").refused(2, "LOCATION")


def test_pdf_in_mail_and_on_disk_is_parsed_once(person: Person, dovecot: Dovecot, tmp_path: Path) -> None:
    plan = pdf("The weir was rebuilt with larch. " * 3_000)
    (tmp_path / "weir.pdf").write_bytes(plan)
    person("add", "local_files", tmp_path, "--name", "drawings").ok()
    assert person.sync("drawings")["parsed"] == 1
    with dovecot.person() as mine:
        mine.create_folder("Plans")
        mine.append("Plans", message(30, "Plans", "The plan of it comes with this.\n", files={"plan.pdf": plan}))
        mine.append("Plans", message(31, "Re: Plans", "It is a good one.\n", answers=30))
    person(*_adding(dovecot, "plans"), "--set", "include=[Plans]", "--secret", "password=env:MAIL_PASSWORD").ok()
    done = person.sync("plans")
    # The messages may have been fetched for the watched source already.
    assert (done["succeeded"], done["parsed"] + done["reused"]) == (3, 3) and done["parsed"] <= 2
    (found,) = person.hits("larch")
    places = dict(found["places"])
    assert places["drawings"] == "weir.pdf" and places["plans"].endswith(";PART=2")
    carrier = person("show", places["plans"], "--json").ok().json["attached_to"]
    shown = person("show", str(carrier), "--json").ok().json
    assert [file["name"] for file in shown["attached"]] == ["plan.pdf"]
    assert [one["title"] for one in shown["conversation"]] == ["Plans", "Re: Plans"]
    assert "Message 1 of 2 in its conversation" in person("show", str(carrier)).ok().out
    person("ledger", "check", "--deep").ok()


def test_secrets_are_never_stored(person: Person) -> None:
    for path, held in person.files():
        # Prefect encrypts the contents of its blocks.
        assert PASSWORD.encode() not in held, path
        assert b"wrong horse" not in held, path
