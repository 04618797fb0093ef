"""The operator's pages and their forms on a real home, over ASGI: their content, effects and refusals, also as JSON."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from catchment.errors import Reason
from catchment.ledger import BackfillSelection
from catchment.model import JobState, ReplayStage
from catchment.pacing.operator_rules import Rule
from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity, operator
from catchment.telemetry.incidents import ReasonCode
from console import session
from deployments.actions import backfills, inbox
from deployments.actions.desk import Desk
from deployments.health.incident_watch import IncidentWatch
from tests.console.standin import Standin, answering
from tests.console.test_actions import (
    _cancel,
    _fail_more,
    _history,
    _job,
    _sync_with_held_deletions,
    a_sink,
    an_incident,
    joined,
    lost_host,
)
from tests.waiting import until
from web.__main__ import desk_of
from web.action_table import ACTIONS
from web.app import application
from web.guard import Guard
from web.readiness import Readiness
from web.warm_library import WarmLibrary

PORT, TOKEN, WHY = 8000, "the token", "because of <tests> & rain"
HOST = f"http://127.0.0.1:{PORT}"
PAGES = (
    "/trouble",
    "/trouble/sources/notes",
    "/sources",
    "/sources/notes",
    "/sources/notes/settings",
    "/sources/notes/consent",
    "/sources/notes/limits",
    "/sources/notes/plan",
    "/sources/notes/prove",
    "/sources/limits?scope=source:notes",
    "/syncs",
    "/syncs/1",
    "/jobs",
    "/audit",
    "/why?item=Hive",
)


@pytest.fixture
def server(filled: Path) -> Iterator[Standin]:
    with answering(filled) as standin:
        yield standin


@pytest.fixture
def desk(filled: Path) -> Desk:
    return session.desk()


@pytest.fixture
def client(filled: Path) -> TestClient:
    """A browser that is signed in to the page of the home."""
    home = Home(filled)
    library = WarmLibrary(home, lambda _reason: None)
    web = application(library, Readiness(library, None), desk_of(home), TOKEN)
    client = TestClient(Guard(web.app, web.check, PORT), base_url=HOST, follow_redirects=False)
    client.get("/signin", params={"key": own_secrets.one_time_key(home.signin_keys)})
    return client


def shown(client: TestClient, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, response.text
    return response.text


def post(client: TestClient, action: str, page: str = "/trouble", **fields: Any) -> tuple[str, str]:
    """Send a form of a page. Return the address of the redirect, and the result that its page shows."""
    token = client.get("/health").text.partition('name="form" value="')[2].partition('"')[0]
    headers = {"Origin": HOST, "Referer": f"{HOST}{page}"}
    response = client.post(f"/actions/{action}", data={"form": token, **fields}, headers=headers)
    assert response.status_code == 303, response.text
    page = client.get(response.headers["location"]).text
    return response.headers["location"], page.partition('aria-label="Result">')[2].partition("</aside>")[0]


def fields_of(name: str, desk: Desk) -> tuple[dict[str, Any], str]:
    """Prepare the home for an action. Return its fields, and the event of its line in the history."""
    match name:
        case "sources.apply_deletions" | "sources.drop_deletions":
            _sync_with_held_deletions(desk)
            is_applied = name == "sources.apply_deletions"
            more = {"expected": 2} if is_applied else {}
            return {"name": "notes", **more}, "hold applied" if is_applied else "hold dropped"
        case "sources.add":
            root = desk.entry("notes").settings.root  # type: ignore[attr-defined]
            return {"kind": "local_files", "location": str(root), "name": "more", "every": "15m"}, "added"
        case "sources.allow_hosts" | "inbox.enqueue":
            place = {"addresses": "https://example.org/\nhttps://example.org/b", "consent": "on"}
            if name == "inbox.enqueue":
                return place, "changed"
            inbox.enqueue(desk, ["https://example.org/"], "test", consented=True)
            return {"name": "inbox", "hosts": "a.example\nb.example:80", "until": ""}, "consent given"
        case "sources.change":
            return {"name": "notes", "settings": "exclude=*.tmp\nlimits.max_mb=20", "watch": ""}, "changed"
        case "sources.remove":
            return {"name": "notes", "confirm": "notes"}, "removed"
        case "consents.give":
            return {"name": "notes", "until": ""}, "consent given"
        case "consents.revoke":
            return {"name": "notes", "confirm": "notes", "scope": ""}, "consent withdrawn"
        case "limits.change":
            return {"name": "kind:imap", "per_hour": "5", "active": "", "blackouts": ""}, "throttle set"
        case "limits.clear":
            with desk.writing() as ledger:
                ledger.throttles.put("source:notes", Rule(per_hour=5), "test", "")
            return {"name": "source:notes"}, "throttle cleared"
        case "quarantine.purge":
            return {"days": "0"}, "cancelled"
        case "sources.resume":
            with desk.writing() as ledger:
                ledger.sources.pause("notes", "test", "")
        case "sources.move":
            joined(desk)
            return {"name": "notes"}, "moved"
        case "syncs.cancel":
            _cancel(desk)
        case "sources.test":
            _unread(desk)
        case "limits.reset_breaker":
            with closing(sqlite3.connect(desk.home.path / "ledger.db")) as ledger, ledger:
                ledger.execute("INSERT INTO breakers (key, failures, opened, locked) VALUES ('host:a.org', 5, 1, 0)")
            return {"name": "host:a.org"}, "breaker reset"
        case "incidents.acknowledge":
            an_incident(desk)
            return {"number": 1}, "incident acknowledged"
        case "syncs.undo":
            return {"number": 1}, "undone"
        case "backfills.plan":
            return {"name": "notes", "stage": "embed", "since": "2020-01-01", "until": ""}, "backfill planned"
        case "backfills.retry" | "backfills.undo":
            return {"number": _backfill(desk, with_work=True)}, "pending" if name.endswith("retry") else "undone"
        case "backfills.start" | "backfills.pause" | "backfills.resume" | "backfills.cancel":
            verb = name.removeprefix("backfills.")
            number = _backfill(desk, started=verb != "start", paused=verb == "resume")
            return {
                "number": number
            }, "backfill cancelled" if verb == "cancel" else f"backfill {verb.removesuffix('e')}ed"
        case "jobs.cancel":
            return {"number": _job(desk, JobState.PENDING)}, "cancelled"
        case "jobs.prioritize":
            return {"number": _job(desk, JobState.RETRYING)}, "prioritized"
        case "quarantine.retry":
            return {"jobs": str(_job(desk, JobState.QUARANTINED))}, "pending"
        case "quarantine.discard":
            return {"source": "notes", "expected": 1}, "cancelled"
        case "hosts.take_out":
            lost_host(desk)
            return {"name": "barn", "confirm": "barn"}, "host left"
        case "library.choose_model":
            return {"setting": "off"}, "model chosen"
        case "library.choose_recognition":
            return {"setting": "off"}, "recognition chosen"
        case "sinks.add":
            place = desk.home.path.parent / "copy"
            return {"kind": "folder", "place": str(place), "name": "copy", "password": ""}, "sink added"
        case "sinks.pause" | "sinks.resume" | "sinks.rebuild" | "sinks.adopt" | "sinks.remove":
            a_sink(desk)
            states = {
                "pause": "paused",
                "resume": "active",
                "rebuild": "emptying",
                "adopt": "adopted",
                "remove": "removed",
            }
            return {"name": "copy"}, f"sink {states[name.removeprefix('sinks.')]}"
        case "backups.make":
            return {}, "backed up"
        case "syncs.start_all":
            return {"deep": "on"}, "sync requested"
        case "quarantine.note":
            return {"jobs": str(_job(desk, JobState.QUARANTINED)), "text": WHY}, "noted"
    events = {
        "sources.pause": "paused",
        "sources.resume": "resumed",
        "sources.test": "resumed",
        "syncs.cancel": "cancel requested",
    }
    return {"name": "notes"}, events.get(name, "sync requested")


def _unread(desk: Desk) -> None:
    """Let the last sync of the source fail because its folder was not found."""
    with desk.writing() as ledger:
        sync = ledger.syncs.begin(
            ledger.sources.get("notes").id, run=None, owner=identity(), code_version="1", alive=alive
        )
        ledger.syncs.end(sync.id, "quarantined", {}, "folder not found; mount its disk", ReasonCode.SOURCE_UNREACHABLE)


def _backfill(desk: Desk, *, started: bool = False, paused: bool = False, with_work: bool = False) -> int:
    """Plan a backfill, and start and pause it. `with_work`: the first sync and the quarantine are its own."""
    planned = backfills.plan(desk, "notes", BackfillSelection(ReplayStage.EMBED), "test")
    assert planned is not None
    with desk.writing() as ledger:
        if started:
            ledger.backfills.start(planned.id, planned.survey.digest, "test")
        if paused:
            ledger.backfills.pause(planned.id, "test")
    if with_work:
        with closing(sqlite3.connect(desk.home.path / "ledger.db")) as database, database:
            database.execute("UPDATE syncs SET backfill_id = ? WHERE id = 1", [planned.id])
            database.execute("UPDATE jobs SET backfill_id = ? WHERE state = 'quarantined'", [planned.id])
    return planned.id


@pytest.mark.parametrize("name", ACTIONS)
def test_form_does_its_action_with_actor_and_reason(
    filled: Path, server: Standin, desk: Desk, client: TestClient, name: str
) -> None:
    fields, event = fields_of(name, desk)
    before = len(_history(filled))
    _, said = post(client, name, **fields, reason=WHY)
    assert ">Done</span>" in said, said

    def is_recorded() -> bool:
        lines = [line for line in _history(filled)[before:] if line[:2] == (operator(), event)]
        return any(WHY in (reason or "") or event == "noted" for _, _, reason in lines)

    # A backup is made in a thread.
    until(is_recorded)


def test_action_without_the_form_token_is_refused(filled: Path, client: TestClient) -> None:
    before = _history(filled)
    for name in ACTIONS:
        for data in ({"name": "notes"}, {"form": "wrong", "name": "notes"}):
            assert client.post(f"/actions/{name}", data=data, headers={"Origin": HOST}).status_code == 403
        assert client.post(f"/actions/{name}", data={}, headers={"Origin": "http://127.0.0.1:9"}).status_code == 403
        assert client.get(f"/actions/{name}").status_code == 405
    assert _history(filled) == before


@pytest.mark.parametrize("name", ["retry", "discard", "note"])
def test_all_that_match_is_refused_if_the_number_changed(
    filled: Path, desk: Desk, client: TestClient, name: str
) -> None:
    _fail_more(desk, 19)
    before = _history(filled)
    page = "/jobs?state=quarantined"
    at, said = post(client, f"quarantine.{name}", page, source="notes", expected=18, text="x", reason=WHY)
    assert at == page
    assert "20 items match now instead of 18; nothing was changed" in said
    assert _history(filled) == before
    _, said = post(client, f"quarantine.{name}", page, source="notes", expected=19, text="x")
    assert ">Done</span>" in said


def test_all_that_match_needs_the_number_that_was_seen(filled: Path, client: TestClient) -> None:
    before = _history(filled)
    assert "expected: missing" in post(client, "quarantine.discard")[1]
    assert "expected: missing" in post(client, "sources.apply_deletions", name="notes")[1]
    assert _history(filled) == before


def test_refused_form_keeps_the_typed_reason(client: TestClient) -> None:
    token = client.get("/health").text.partition('name="form" value="')[2].partition('"')[0]
    headers = {"Origin": HOST, "Referer": f"{HOST}/sources/notes"}
    data = {"form": token, "name": "notes", "reason": WHY}
    sent = client.post("/actions/syncs.start", data=data, headers=headers)
    assert sent.headers["location"] == "/sources/notes"
    page = shown(client, "/sources/notes")
    assert "Not running; start Catchment" in page
    assert 'value="because of &lt;tests&gt; &amp; rain"' in page
    assert "not running" not in shown(client, "/sources/notes")


@pytest.mark.parametrize("referer", ["http://evil.example/x", "//evil.example", "http://127.0.0.1:8000//evil.example"])
def test_refusal_never_leads_to_another_site(client: TestClient, referer: str) -> None:
    token = client.get("/health").text.partition('name="form" value="')[2].partition('"')[0]
    headers = {"Origin": HOST, "Referer": referer}
    sent = client.post("/actions/jobs.cancel", data={"form": token, "number": "9999"}, headers=headers)
    assert re.fullmatch(r"/|/[^/\\].*", sent.headers["location"])


@pytest.mark.parametrize("fields", [{"number": "x"}, {}, {"number": str(2**70)}, {"number": "1", "colour": "red"}])
def test_wrong_fields_are_named_in_one_line(client: TestClient, fields: dict[str, str]) -> None:
    said = post(client, "jobs.cancel", **fields)[1]
    assert ">Not done</span>" in said
    assert ("colour" if "colour" in fields else "number") in said


def test_cause_is_shown_beside_the_last_good_version(desk: Desk, client: TestClient) -> None:
    with desk.reading() as ledger:
        cluster = ledger.quarantine.clusters()[0].id
    page = shown(client, f"/trouble/clusters/{cluster}")
    for text in ("the PDF ends too early", "Retry it", "Last good version", "at parse", "broken.pdf"):
        assert text in page
    assert 'name="expected" value="1"' in page
    assert client.get("/trouble/clusters/nope").status_code == 404


def test_held_source_says_why_and_can_be_resumed(desk: Desk, client: TestClient) -> None:
    with desk.writing() as ledger:
        ledger.sources.hold("notes", "sync:1", "folder not found")
        IncidentWatch(desk.home, lambda: ledger, lambda: nullcontext(ledger), dict, lambda _: None, is_up=False).judge()
    assert 'href="/trouble/sources/notes"' in shown(client, "/trouble")
    page = shown(client, "/trouble/sources/notes")
    assert "notes: folder not found" in page
    assert 'action="/actions/sources.resume"' in page
    at, said = post(client, "sources.resume", name="notes", reason=WHY)
    assert (at, "no sync could be started" in said) == ("/sources/notes", True)
    assert "no open problem" in shown(client, "/trouble/sources/notes")
    assert "held" not in shown(client, "/trouble").partition('id="queue"')[2].partition("</nav>")[0]


def test_held_deletions_are_reviewed_by_folder(desk: Desk, client: TestClient) -> None:
    _sync_with_held_deletions(desk)
    page = shown(client, "/trouble/deletions/notes")
    assert "notes: 2 items are gone" in page
    assert 'name="expected" value="2"' in page
    assert "/trouble/deletions/notes?folder=Bees" in page
    inside = shown(client, "/trouble/deletions/notes?folder=Bees")
    assert "item=Bees%2FSwarm.md" in inside
    assert "item=Hive.md" not in inside


def test_open_breaker_of_a_host_is_reset_beside_the_limits(desk: Desk, client: TestClient) -> None:
    with closing(sqlite3.connect(desk.home.path / "ledger.db")) as ledger, ledger:
        ledger.execute("INSERT INTO breakers (key, failures, opened, locked) VALUES ('host:a.org', 5, 1, 1)")
    assert "a.org" not in shown(client, "/trouble")
    page = shown(client, "/sources/limits")
    assert "you reset it: the login was refused" in page and 'name="name" value="host:a.org"' in page


def test_sync_shows_what_it_changed_by_name_and_its_undo(desk: Desk, client: TestClient) -> None:
    page = shown(client, "/syncs/1")
    for text in ("Discover", "Bees/Swarm.md", 'action="/actions/syncs.undo"', "Added"):
        assert text in page
    at, _ = post(client, "syncs.undo", number=1)
    assert "Undone by" in shown(client, at)
    assert client.get("/syncs/99").status_code == 404


def test_jobs_are_filtered_by_state_and_source(desk: Desk, client: TestClient) -> None:
    page = shown(client, "/jobs?state=quarantined")
    assert "broken.pdf" in page
    assert "later.md" not in page
    assert client.get("/jobs?state=lost").status_code == 400
    assert client.get("/jobs?source=other").status_code == 404
    job = shown(client, f"/jobs/{_job(desk, JobState.RETRYING)}")
    assert 'action="/actions/jobs.prioritize"' in job
    assert "connector error" in job


def test_item_is_explained_by_its_name(client: TestClient) -> None:
    page = shown(client, "/why?item=broken.pdf")
    assert "Quarantined (parse_error: the PDF ends too early)" in page
    assert "No item has this name" in shown(client, "/why?item=nothing")
    assert "Explain" in shown(client, "/why")


def test_page_is_small_and_the_same_as_json(client: TestClient) -> None:
    for path in PAGES:
        assert len(shown(client, path)) < 60_000
        response = client.get(f"/api/v1{path}", headers={"Authorization": f"Bearer {TOKEN}"})
        assert response.status_code == 200, response.text
        assert ("quarantined" if path == "/jobs" else "cluster" if path == "/trouble" else "notes") in response.text
        assert client.get(f"/api/v1{path}").status_code == 401


@pytest.mark.parametrize("path", ["/trouble", "/sources", "/syncs", "/jobs", "/why"])
def test_page_before_the_first_source_says_how_to_begin(state: Path, path: str) -> None:
    home = Home(state).make()
    library = WarmLibrary(home, lambda _reason: None)
    web = application(library, Readiness(library, None), desk_of(home), TOKEN)
    browser = TestClient(Guard(web.app, web.check, PORT), base_url=HOST)
    browser.get("/signin", params={"key": own_secrets.one_time_key(home.signin_keys)})
    assert "Start with a folder or a vault" in shown(browser, path)
    if path != "/why":
        assert browser.get(f"/api/v1{path}", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 404


def test_home_without_trouble_says_so(desk: Desk, client: TestClient) -> None:
    post(client, "quarantine.discard", source="notes", expected=1)
    page = shown(client, "/trouble")
    assert "All is well" in page
    assert 'class="badge"' not in page


def test_program_acts_with_the_token(filled: Path, desk: Desk, client: TestClient) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    job = _job(desk, JobState.QUARANTINED)
    body = {"jobs": [job], "reason": WHY}
    done = client.post("/api/v1/actions/quarantine.retry", json=body, headers=headers)
    assert done.json() == {"message": "1 item queued, for the next sync of the source", "result": 1}
    assert _history(filled)[-1] == (operator(), "pending", WHY)
    for name, given, status in (
        ("jobs.cancel", {"number": 9999}, 404),
        ("jobs.cancel", {"number": _job(desk, JobState.SUCCEEDED)}, 409),
        ("quarantine.discard", {"cause": Reason.TIMEOUT, "expected": 7}, 409),
        ("quarantine.discard", {"colour": "red"}, 400),
        ("no.such", {}, 404),
    ):
        answer = client.post(f"/api/v1/actions/{name}", json=given, headers=headers)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert client.post("/api/v1/actions/jobs.cancel", json={"number": job}).status_code == 401


def test_names_of_strangers_are_never_markup(desk: Desk, client: TestClient) -> None:
    name = "<script>alert(1)</script>"
    assert name not in client.get(f"/why?item={quote(name)}").text
    assert name not in client.get(f"/jobs?source={quote(name)}").text
    assert name not in post(client, "sources.pause", name=name)[1]


def test_sync_of_all_sources_names_those_that_do_not_start(server: Standin, desk: Desk, client: TestClient) -> None:
    assert 'type="checkbox" name="deep"' in shown(client, "/syncs")
    assert "1 sync started" in post(client, "syncs.start_all", "/syncs", deep="on")[1]
    [body] = [body for _, path, body in server.asked if path.endswith("/create_flow_run")]
    assert body["parameters"]["deep"] is True
    with desk.writing() as ledger:
        ledger.sources.pause("notes", "test", "for a while")
    at, said = post(client, "syncs.start_all", "/syncs")
    assert (at, "notes: paused (for a while)" in said) == ("/syncs", True)


def test_what_was_closed_today_is_listed_below_trouble(desk: Desk, client: TestClient) -> None:
    assert "Closed in the last 24 hours" not in shown(client, "/trouble")
    post(client, "quarantine.retry", source="notes", expected=1)
    assert "Closed in the last 24 hours" not in shown(client, "/trouble"), "not closed before it has succeeded"
    with desk.writing() as ledger:
        ledger.sources.hold("notes", "sync:1", "folder not found")
        ledger.sources.resume("notes", "Ada")
    page = shown(client, "/trouble").partition("Closed in the last 24 hours")[2]
    for text in ("notes", "resumed · Ada"):
        assert text in page


def test_discarded_items_are_listed_as_closed_by_cause(client: TestClient) -> None:
    post(client, "quarantine.discard", source="notes", expected=1)
    page = shown(client, "/trouble").partition("Closed in the last 24 hours")[2]
    assert "the PDF ends too early" in page
    assert "1 item discarded" in page
