"""`jobs`, `quarantine`, `deletions` and `why` over a real ledger."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal
from unicodedata import normalize

import pytest
from sqlalchemy import insert

from catchment.content.pictures import tesseract
from catchment.errors import AccessDenied, FailureClass, Reason
from catchment.ledger import FailureInfo, Ledger
from catchment.ledger.db.schema import page_texts
from catchment.model import Failure, Item, Tombstone, Upsert
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity
from connectors.folders.file import to_locator
from console import session
from console.library.why import obstacle
from tests.documents import document_named
from tests.web.test_signin import browser, sign_in

if TYPE_CHECKING:
    from tests.console.conftest import Cli

Form = Literal["NFC", "NFD"]


def _job(cli: Cli, item: str) -> int:
    [number] = [row["job"] for row in cli("jobs", "list", "--json").json if row["item"] == item]
    return int(number)


def test_jobs_are_listed_in_the_shape_that_scripts_rely_on(filled: Path, cli: Cli) -> None:
    rows = cli("jobs", "list", "--json").json
    assert {row["item"]: row["state"] for row in rows} == {
        "Bees/Swarm.md": "succeeded",
        "Hive.md": "succeeded",
        "broken.pdf": "quarantined",
        "later.md": "retrying",
        "big.bin": "skipped",
        "new.md": "pending",
    }
    assert list(rows[0])[:6] == ["job", "source", "item", "state", "reason", "attempts"]
    assert [json.loads(line) for line in cli("jobs", "list", "--ndjson").out.splitlines()] == rows


def test_jobs_can_be_narrowed_by_state_source_and_time(filled: Path, cli: Cli) -> None:
    [later] = cli("jobs", "list", "--state", "retrying", "--json").json
    assert later["item"] == "later.md"
    assert later["next_attempt"] == cli("why", "later.md", "--json").json["items"][0]["next_attempt"] is not None
    assert len(cli("jobs", "list", "--since", "1h", "--source", "notes", "--json").json) == 6
    assert cli("jobs", "list", "--since", "2030-01-01", "--json").json == []
    assert cli("jobs", "list", "--since", "soon").code == 2
    assert cli("jobs", "list", "--source", "nots").code == 4


def test_a_job_is_shown_with_its_history(filled: Path, cli: Cli) -> None:
    job = _job(cli, "broken.pdf")
    shown = cli("jobs", "show", str(job), "--json").json
    assert [event["event"] for event in shown["history"]][-1] == "quarantined"
    assert "broken.pdf" in cli("jobs", "show", str(job)).out
    assert cli("jobs", "show", "999999").code == 4


def test_the_quarantine_is_listed_in_the_shape_that_scripts_rely_on(filled: Path, cli: Cli) -> None:
    [entry] = cli("quarantine", "list", "--json").json
    assert list(entry)[:6] == ["job", "source", "item", "reason", "attempts", "message"]
    assert (entry["item"], entry["reason"], entry["attempts"]) == ("broken.pdf", "parse_error", 1)
    assert "the PDF ends too early" in cli("quarantine", "list").out
    assert cli("quarantine", "list", "--reason", "timeout", "--json").json == []


def test_an_entry_is_shown_with_its_traceback_and_notes(filled: Path, cli: Cli) -> None:
    job = str(_job(cli, "broken.pdf"))
    assert cli("quarantine", "note", job, "asked for a whole copy").code == 0
    out = cli("quarantine", "show", job).out
    assert "asked for a whole copy" in out
    assert out.endswith("at parse\n")
    assert cli("quarantine", "show", str(_job(cli, "Hive.md"))).code == 4


def test_an_entry_leads_to_the_last_good_version(filled: Path, cli: Cli) -> None:
    assert "none in the library" in cli("quarantine", "show", str(_job(cli, "broken.pdf"))).out
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        source = ledger.sources.get("notes").id
        sync = ledger.syncs.begin(source, run=None, owner=identity(), code_version="0.1.0", alive=alive)
        ledger.intake.record(sync.id, [Upsert(Item("Hive.md", "", "v2", identity="Hive.md"))], {})
        batch = ledger.queue.claim(source, 10, owner=identity())
        [job] = [job.id for job in batch.jobs if job.item.locator == "Hive.md"]
        error = FailureInfo(Reason.PARSE_ERROR, FailureClass.PERMANENT, "ParseError", "it was cut off")
        ledger.queue.fail(batch.token, job, error, retry_at=None)
        ledger.syncs.end(sync.id, "completed", {})
    shown = cli("quarantine", "show", str(job), "--json").json
    assert cli("show", str(shown["document"]), "--json").json["item"] == "Hive.md"
    assert f"catchment show {shown['document']}`\n" in cli("quarantine", "show", str(job)).out


@pytest.mark.parametrize("choice", ["by number", "--all", "--reason"])
def test_a_retry_puts_items_back_into_the_queue(filled: Path, cli: Cli, choice: str) -> None:
    arguments = {
        "by number": [str(_job(cli, "broken.pdf"))],
        "--all": ["--all"],
        "--reason": ["--all", "--reason", "parse_error", "--source", "notes"],
    }[choice]
    assert cli("quarantine", "retry", *arguments).out.startswith("1 item ")
    assert cli("quarantine", "list", "--json").json == []
    assert cli("jobs", "list", "--state", "pending", "--json").json[0]["item"] in ("broken.pdf", "new.md")


@pytest.mark.parametrize("arguments", [(), ("7", "--all"), ("7", "--reason", "timeout")])
def test_a_retry_that_does_not_say_what_is_refused(filled: Path, cli: Cli, arguments: tuple[str, ...]) -> None:
    response = cli("quarantine", "retry", *arguments)
    assert response.code == 2
    assert "--all" in response.err
    assert len(cli("quarantine", "list", "--json").json) == 1


def test_a_discarded_item_leaves_the_quarantine(filled: Path, cli: Cli) -> None:
    job = str(_job(cli, "broken.pdf"))
    assert cli("quarantine", "discard", job, "--reason", "lost for good").code == 0
    assert cli("quarantine", "list", "--json").json == []
    assert cli("jobs", "show", job, "--json").json["job"]["state"] == "cancelled"
    assert "discarded from quarantine (" in cli("why", "broken.pdf").out


def test_a_purge_takes_only_what_is_old(filled: Path, cli: Cli) -> None:
    assert cli("quarantine", "purge", "--older-than", "30d").out == "0 entries purged\n"
    assert len(cli("quarantine", "list", "--json").json) == 1
    assert cli("quarantine", "purge", "--older-than", "0s").out == "1 entry purged\n"
    assert cli("quarantine", "purge", "--older-than", "old").code == 2


def test_the_quarantine_is_counted_by_reason_and_cause(filled: Path, cli: Cli) -> None:
    stats = cli("quarantine", "stats", "--json").json
    assert stats["sources"] == {"notes": {"parse_error": 1}}
    [cluster] = stats["clusters"]
    assert cluster["by_source"] == {"notes": 1}
    assert "parse_error" in cli("quarantine", "stats").out
    assert cli("quarantine", "retry", "--all", "--cluster", "another cause").out.startswith("0 items ")
    assert cli("quarantine", "retry", "--all", "--cluster", cluster["id"]).out.startswith("1 item ")
    assert cli("quarantine", "stats").err == "the quarantine is empty\n"


@pytest.fixture
def emptied(filled: Path) -> Path:
    """Return the home after a sync that found an empty folder in place of the root."""
    ledger = Ledger.open(Home(filled).database_url)
    try:
        source = ledger.sources.get("notes").id
        sync = ledger.syncs.begin(source, run=None, owner=identity(), code_version="0.1.0", alive=alive)
        ledger.intake.record(sync.id, [Tombstone("Hive.md"), Tombstone("Bees/Swarm.md")], {})
        ledger.intake.settle(sync.id, changed_roots=[""])
        ledger.syncs.end(sync.id, "completed", {"held": 2})
    finally:
        ledger.close()
    return filled


def test_held_deletions_are_shown_and_nothing_is_gone_yet(emptied: Path, cli: Cli) -> None:
    [hold] = cli("deletions", "list", "--json").json
    assert (hold["source"], hold["count"]) == ("notes", 2)
    assert "2 deletions wait for a decision" in cli("status").out
    assert len(cli("search", "hive", "--json").json) == 2
    assert "the deletion is held" in cli("why", "Hive.md").out


def test_held_deletions_happen_when_the_operator_says_so(emptied: Path, cli: Cli) -> None:
    assert cli("deletions", "apply", "notes", "--reason", "moved out").out == "notes: 2 documents deleted\n"
    assert cli("search", "hive", "--json").json == []
    assert cli("deletions", "list", "--json").json == []
    assert cli("deletions", "apply", "notes").code == 4


def test_dropped_deletions_leave_everything_in_the_library(emptied: Path, cli: Cli) -> None:
    assert cli("deletions", "drop", "notes").code == 0
    assert len(cli("search", "hive", "--json").json) == 2
    assert cli("deletions", "list", "--json").json == []


@pytest.mark.parametrize(
    ("asked", "because"),
    [
        ("Hive.md", "in the library as document "),
        ("Swarm.md", "in the library as document "),
        ("broken.pdf", "quarantined (parse_error: the PDF ends too early); see `catchment quarantine show "),
        ("later.md", "failed (connector_error: it was busy); next attempt in "),
        ("big.bin", "skipped: too large"),
        ("new.md", "waiting to be processed"),
    ],
)
def test_why_says_what_became_of_an_item(filled: Path, cli: Cli, asked: str, because: str) -> None:
    [item] = cli("why", asked, "--json").json["items"]
    assert item["because"].startswith(because)
    assert (item["run"], item["code_version"]) == ("run-1", "0.1.0")
    assert item["history"]
    assert because in cli("why", asked).out


@pytest.mark.parametrize(
    ("version", "package"), [(None, "Tesseract is not installed; .*tesseract-ocr"), ("5", ".* tesseract-ocr-eng")]
)
def test_pages_that_wait_in_vain_name_the_missing_package(
    filled: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, version: str | None, package: str
) -> None:
    monkeypatch.setattr(tesseract, "version", lambda: version)
    monkeypatch.setattr(tesseract, "installed", frozenset[str])
    page = browser(Home(filled))
    sign_in(page, Home(filled))
    asked = ("why", "Hive.md"), ("sources", "show", "notes")
    assert not [words for words in asked if "recognized" in cli(*words).out]
    assert "Pictures" not in page.get("/sources/notes").text
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        shown = document_named(ledger, "Hive.md")
        with ledger._store.write() as writing:
            writing.execute(insert(page_texts).values(content_hash=shown.content_hash, page=1, waits=True))
    missing = re.compile(f"ext on 1 picture not recognized yet: {package}")
    assert [words for words in asked if not missing.search(" ".join(cli(*words).out.split()))] == []
    assert missing.search(page.get("/sources/notes").text)
    assert missing.search(page.get("/why?item=Hive.md").text)


def test_why_takes_a_path_on_this_machine(filled: Path, vault: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [item["item"] for item in cli("why", str(vault / "Hive.md"), "--json").json["items"]] == ["Hive.md"]
    monkeypatch.chdir(vault / "Bees")
    assert [item["item"] for item in cli("why", "Swarm.md", "--json").json["items"]] == ["Bees/Swarm.md"]


def test_why_takes_a_relative_path_of_a_file_that_was_deleted(
    filled: Path, vault: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (vault / "later.md").unlink()
    monkeypatch.chdir(vault.parent)
    assert "later.md" in cli("why", "Vault/later.md", "--json").json["items"][0]["item"]
    assert cli("why", "Vault/never.md").out == "notes: the file does not exist and was never listed\n"


def test_why_says_what_keeps_a_file_out(filled: Path, vault: Path, cli: Cli, tmp_path: Path) -> None:
    for name in ("unseen.md", ".hidden.md", "ignored.tmp"):
        (vault / name).write_text("text")
    (vault / ".catchmentignore").write_text("*.tmp\n")
    (tmp_path / "elsewhere.md").write_text("text")
    expected = {
        vault / "unseen.md": "notes: new; add it with `catchment sync notes`",
        vault / ".hidden.md": "notes: not read (hidden",
        vault / "ignored.tmp": "notes: not read (excluded by .catchmentignore",
        tmp_path / "elsewhere.md": "elsewhere.md: outside all sources (notes)",
        vault / "gone.md": "notes: the file does not exist",
    }
    for path, reason in expected.items():
        response = cli("why", str(path))
        assert (response.code, reason in response.out) == (0, True), response


@pytest.mark.parametrize(("disk", "asked"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_why_finds_a_name_whose_accents_are_written_in_another_way(
    filled: Path, vault: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, disk: Form, asked: Form
) -> None:
    seen, ignored = "Été/Café.md", "Été/Thé.tmp"
    (vault / ".catchmentignore").write_text("*.tmp\n")
    (vault / normalize(disk, "Été")).mkdir()
    for name in (seen, ignored):
        (vault / normalize(disk, name)).write_text("text")
    with session.writing() as ledger:
        sync = ledger.syncs.begin(1, run=None, owner=identity(), code_version="0.1.0", alive=alive)
        locator = normalize(disk, seen)
        ledger.intake.record(sync.id, [Upsert(Item(locator, locator.partition("/")[0], "v1"))], {})
        ledger.syncs.end(sync.id, "completed", {})
    monkeypatch.chdir(vault)
    for path in (seen, "Café.md", vault / seen):
        response = cli("why", normalize(asked, str(path)), "--json").json
        assert [item["item"] for item in response["items"]] == [locator]
    for path in (ignored, vault / ignored):
        assert "notes: not read (excluded by .catchmentignore" in cli("why", normalize(asked, str(path))).out


def test_why_says_when_the_source_is_paused(filled: Path, vault: Path, cli: Cli) -> None:
    (vault / "unseen.md").write_text("text")
    cli("sources", "pause", "notes")
    assert "notes: paused; resume with `catchment sources resume notes`" in cli("why", str(vault / "unseen.md")).out


def test_why_of_something_that_nobody_knows_exits_with_4(filled: Path, cli: Cli) -> None:
    assert cli("why", "never-heard-of.md").code == 4


def test_nothing_is_discarded_when_one_of_the_jobs_cannot_be(filled: Path, cli: Cli) -> None:
    broken, other = str(_job(cli, "broken.pdf")), str(_job(cli, "Hive.md"))
    for more in (other, "999999"):
        response = cli("quarantine", "discard", broken, more)
        assert (response.code, response.out, response.err.count("\n")) == ({other: 1, "999999": 4}[more], "", 1), (
            response
        )
        assert len(cli("quarantine", "list", "--json").json) == 1
    assert cli("quarantine", "discard", broken, broken).out == "1 item discarded\n"


def test_a_retry_tells_which_jobs_are_not_in_quarantine(filled: Path, cli: Cli) -> None:
    broken, other = str(_job(cli, "broken.pdf")), str(_job(cli, "Hive.md"))
    response = cli("quarantine", "retry", other, "999999")
    assert (response.code, response.out, "JOB: none is in quarantine" in response.err) == (4, "", True)
    response = cli("quarantine", "retry", broken, other)
    assert (response.code, response.out[:7]) == (0, "1 item ")
    assert "1 job is not in quarantine" in response.err
    response = cli("quarantine", "retry", other)
    assert (response.code, response.err) == (
        1,
        f"catchment: job {other}: succeeded, so it cannot be retried; see `catchment jobs show {other}`\n",
    )


def test_a_retry_tells_which_jobs_are_missed_at_their_source(filled: Path, cli: Cli) -> None:
    with session.writing() as ledger:
        sync = ledger.syncs.begin(1, run=None, owner=identity(), code_version="0.1.0", alive=alive)
        ledger.intake.record(sync.id, [Upsert(Item("worse.pdf", "", "v1"))], {})
        error = FailureInfo(Reason.PARSE_ERROR, FailureClass.PERMANENT, "ParseError", "it is damaged", "at parse")
        batch = ledger.queue.claim(1, 10, owner=identity())
        [job] = [job.id for job in batch.jobs if job.item.locator == "worse.pdf"]
        ledger.queue.fail(batch.token, job, error, retry_at=None)
        ledger.intake.record(sync.id, [Tombstone("broken.pdf"), Tombstone("worse.pdf")], {})
        ledger.intake.settle(sync.id, changed_roots=[""])
        ledger.syncs.end(sync.id, "completed", {"held": 2})
    jobs = [str(_job(cli, name)) for name in ("broken.pdf", "worse.pdf")]
    response = cli("quarantine", "retry", *jobs)
    assert (response.code, "missing at the source" in response.err, "deletions list" in response.err) == (4, True, True)
    response = cli("quarantine", "retry", "--all")
    assert (response.code, response.out[:7], "2 jobs are not in quarantine, or missing" in response.err) == (
        0,
        "0 items",
        True,
    )


def test_why_says_that_a_folder_was_not_listed(filled: Path, vault: Path, cli: Cli) -> None:
    with session.writing() as ledger:
        source = ledger.sources.get("notes").id
        sync = ledger.syncs.begin(source, run=None, owner="", code_version="", alive=lambda _: False)
        closed = Item("Closed/", "Closed", "unreadable.13")
        ledger.intake.record(sync.id, [Failure(closed, AccessDenied("permission denied"))], {})
        ledger.syncs.end(sync.id, "completed", {})
    response = cli("why", str(vault / "Closed" / "secret.md"))
    assert "notes: cannot look: Closed/ was not listed; see `catchment why Closed/`" in response.out
    assert "does not exist" not in response.out
    assert "permission denied" in cli("why", "Closed/").out


def test_why_of_a_missing_root_does_not_deny_the_file(filled: Path, vault: Path, cli: Cli) -> None:
    vault.rename(vault.with_name("unmounted"))
    response = cli("why", str(vault / "never-listed.md"))
    assert response.code != 0 and "not found; mount its disk" in response.err


def test_why_names_the_folder_that_it_may_not_enter() -> None:
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o000 if os.geteuid() else 0o700)
        user = os.geteuid()
        try:
            os.seteuid(user or 65_534)
            assert obstacle(folder / "inner" / "secret.md") == (
                f"{folder}: permission denied; grant access to it, then ask again"
            )
        finally:
            os.seteuid(user)
            folder.chmod(0o700)
    assert obstacle(folder / "inner") is None


def test_why_says_which_ignore_file_keeps_a_folder_from_being_listed(filled: Path, vault: Path, cli: Cli) -> None:
    (vault / "Bees" / "unseen.md").write_text("text")
    (vault / "Bees" / ".catchmentignore").write_text("*.tmp\n" * 200_000)
    response = cli("why", str(vault / "Bees" / "unseen.md"))
    assert (response.code, response.err) == (0, "")
    assert (
        "notes: cannot be listed (.catchmentignore cannot be read (file too large: more than 5,000 lines"
        in response.out
    )
    (vault / ".catchmentignore").write_text("*.tmp\n" * 200_000)
    response = cli("why", str(vault / "Bees" / "unseen.md"))
    assert (response.code, response.err.count("\n")) == (10, 1)
    assert ".catchmentignore cannot be read (file too large: more than 5,000 lines" in response.err


def test_why_finds_a_file_whose_name_is_no_text(filled: Path, vault: Path, cli: Cli) -> None:
    path = vault / os.fsdecode(b"caf\xe9.md")
    path.write_text("text")
    (vault / os.fsdecode(b"th\xe9.md")).write_text("text")
    locator = to_locator(path.name)
    with session.writing() as ledger:
        sync = ledger.syncs.begin(1, run=None, owner=identity(), code_version="0.1.0", alive=alive)
        ledger.intake.record(sync.id, [Upsert(Item(locator, "", "v1"))], {})
        ledger.syncs.end(sync.id, "completed", {})
    assert [item["item"] for item in cli("why", str(path), "--json").json["items"]] == [locator]
    assert "notes: new; add it with" in cli("why", str(vault / os.fsdecode(b"th\xe9.md"))).out


def test_why_takes_a_path_by_way_of_a_link_to_the_source(
    filled: Path, vault: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (vault / "unseen.md").write_text("text")
    (tmp_path / "link").symlink_to(vault)
    assert "notes: new; add it with" in cli("why", str(tmp_path / "link" / "unseen.md")).out
    # The source may be configured with the link, and the path given with its target.
    file = filled / "sources.yaml"
    file.write_text(file.read_text().replace(str(vault), str(tmp_path / "link")))
    monkeypatch.chdir(vault)
    assert "notes: new; add it with" in cli("why", "unseen.md").out


def test_job_is_prioritized_and_cancelled_by_its_number(filled: Path, cli: Cli) -> None:
    job = str(_job(cli, "later.md"))
    assert cli("jobs", "prioritize", job, "--reason", "needed today").out == f"job {job}: next of its source\n"
    assert cli("jobs", "cancel", job, "--reason", "not after all").out == f"job {job}: cancelled\n"
    shown = cli("jobs", "show", job, "--json").json
    assert shown["job"]["state"] == "cancelled"
    assert [(line["event"], line["reason"]) for line in shown["history"][-2:]] == [
        ("prioritized", "needed today"),
        ("cancelled", "not after all"),
    ]
    assert cli("jobs", "cancel", job).code != 0
    assert cli("jobs", "prioritize", "999").code == 4
