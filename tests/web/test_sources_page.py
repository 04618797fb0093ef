"""Adding and setting up sources on the page: previews and failures leave no trace, and no secret leaks."""

from __future__ import annotations

import logging
import re
import stat
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from sqlalchemy import Engine, event
from starlette.testclient import TestClient

from catchment.ledger import Ledger
from catchment.ledger.db import vacuum
from catchment.runtime.home import Home
from connectors.obsidian import Obsidian
from deployments.actions import previews, sources
from deployments.actions.sources import NewSource
from tests.connectors.github.server import TOKEN as SECRET
from tests.connectors.github.server import GitHubServer, serving_hub
from tests.outside_packages import install, site_of
from tests.web.test_signin import HOST, TOKEN, browser, form_token, sign_in
from web.__main__ import desk_of

Files = Mapping[str, bytes]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("CATCHMENT_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home").make()


@pytest.fixture
def client(home: Home) -> TestClient:
    client = browser(home)
    sign_in(client, home)
    return client


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "Vault"
    (folder / ".obsidian").mkdir(parents=True)
    for name, text in (("Girder.md", "The girder."), ("Pier.md", "The pier."), ("plan.pdf", "%PDF"), ("README", "x")):
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def notes(home: Home, vault: Path) -> Home:
    """A home with the source `notes`, which was never synced."""
    sources.add(desk_of(home), NewSource("obsidian", str(vault), "notes"), "test")
    return home


@pytest.fixture
def hub() -> Iterator[GitHubServer]:
    with serving_hub() as server:
        server.repo("ada/weir").open("Gauge")
        yield server


def post(client: TestClient, action: str, page: str = "/sources/new", **fields: Any) -> tuple[str, str]:
    """Send a form of a page. Return the address that follows, and its text."""
    headers = {"Origin": HOST, "Referer": f"{HOST}{page}"}
    response = client.post(f"/actions/{action}", data={"form": form_token(client), **fields}, headers=headers)
    assert response.status_code == 303, response.text
    return response.headers["location"], client.get(response.headers["location"]).text


def result_of(page: str) -> str:
    return page.partition('aria-label="Result">')[2].partition("</aside>")[0]


def files(home: Home) -> Files:
    """Return the stored files, without the sign-in and the reports of processes."""
    stored_files = (file for file in home.path.rglob("*") if file.is_file() and home.run not in file.parents)
    names = {file: str(file.relative_to(home.path)) for file in stored_files}
    return {name: file.read_bytes() for file, name in names.items() if not name.startswith(("web-", "ledger.db-"))}


def history(home: Home) -> list[str]:
    ledger = Ledger.inspect(home, read_only=True)
    try:
        return [f"{event.event} {event.reason}" for event in ledger.history.decisions(("added", "removed"), 100)]
    finally:
        ledger.close()


def github(hub: GitHubServer, **more: str) -> dict[str, str]:
    place = {"kind": "github", "location": f"{hub.web}/ada/weir", "name": "plots", "settings": "include=issues"}
    return {**place, "secret": SECRET, "consent": "true", **more}


def test_form_offers_each_kind_and_reads_nothing(home: Home, client: TestClient) -> None:
    assert "/actions/sources.add" not in client.get("/sources/new").text
    labels = {
        "obsidian": "Vault",
        "local_files": "Folder",
        "imap": "Mailbox",
        "github": "Repository",
        "web": "Address or file",
    }
    for kind, label in labels.items():
        page = client.get(f"/sources/new?kind={kind}").text
        assert f'name="kind" value="{kind}"' in page and f'<label for="location">{label}</label>' in page
        assert ('type="password"' in page) is (kind in ("imap", "github"))
        assert all(f'href="/sources/new?kind={other}"' in page for other in labels)
    assert not (home.path / "ledger.db").exists()


def test_refused_form_keeps_what_was_typed_and_no_secret(client: TestClient) -> None:
    fields = {"kind": "imap", "location": "nobody", "name": "post", "secret": "hunter2", "settings": "include=INBOX"}
    client.get("/sources/new?kind=imap")
    _, page = post(
        client, "sources.add", "/sources/new?kind=imap", **fields, until="2027-01-01", every="1h", reason="mine"
    )
    assert "Not done" in page
    for value in (
        'value="nobody"',
        'value="post"',
        "include=INBOX",
        'value="2027-01-01"',
        '"1h" selected',
        'value="mine"',
    ):
        assert value in page, value
    assert "hunter2" not in page


def test_preview_counts_files_by_type_and_writes_nothing(home: Home, client: TestClient, vault: Path) -> None:
    before = files(home)
    query = urlencode({"kind": "obsidian", "location": str(vault), "name": "notes", "every": "15m", "watch": "true"})
    page = client.get(f"/sources/new?{query}").text
    assert "Vault: Obsidian vault" in page
    assert re.findall(r'<th scope="row">(\S[^<]*)</th\s*><td class="n">(\d+)', page) == [
        ("md", "2"),
        ("without an ending", "1"),
        ("pdf", "1"),
        ("All", "4"),
    ]
    assert files(home) == before
    answer = client.get(f"/api/v1/sources/new?{query}", headers={"Authorization": f"Bearer {TOKEN}"}).json()
    assert answer["preview"]["files"][0] == {"ending": "md", "number": 2, "size": 20}
    assert files(home) == before


def test_preview_names_ten_hosts_and_asks_none(home: Home, client: TestClient, tmp_path: Path) -> None:
    opml = tmp_path / "feeds.opml"
    feeds = "".join(f'<outline xmlUrl="https://h{number:02}.example/feed"/>' for number in range(12))
    opml.write_text(f'<opml version="2.0"><body>{feeds}</body></opml>')
    query = urlencode({"kind": "web", "location": str(opml), "name": "feeds", "watch": "true", "every": "1h"})
    page = client.get(f"/sources/new?{query}").text
    assert re.findall(r"<b[^>]*>(h\d\d)\.example</b>", page) == [f"h{number:02}" for number in range(10)]
    assert "2 more" in page and "h11.example" in page
    assert 'name="consent"' in page and 'name="watch" value="true"' not in page.partition("/actions/sources.add")[2]
    assert not (home.path / "ledger.db").exists()


def test_count_of_a_large_folder_ends_in_time(client: TestClient, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "_COUNT_SECONDS", 0)
    page = client.get("/sources/new", params={"kind": "obsidian", "location": str(vault), "name": "notes"}).text
    assert "there are more" in page


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ({"location": "/nowhere/Valt"}, "not found"),
        ({"kind": "imap", "location": "anna"}, "not a mailbox"),
        ({"kind": "carrier-pigeon"}, "unknown kind"),
        ({"every": "often"}, "invalid interval"),
        ({"name": "limits"}, "an address of the page"),
    ],
)
def test_problem_is_shown_beside_the_form(client: TestClient, vault: Path, place: dict[str, str], problem: str) -> None:
    fields = {"kind": "obsidian", "location": str(vault), "name": "notes", **place}
    page = client.get("/sources/new", params=fields).text
    assert problem in page.partition('role="alert"')[2].partition("</p>")[0]
    assert 'aria-invalid="true"' in page
    assert "/actions/sources.add" not in page


def test_host_is_not_asked_before_there_is_consent(client: TestClient) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    place = {"kind": "imap", "location": "anna@127.0.0.1:9", "name": "mail"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("socket.socket.connect", refuse)
        page = client.get("/sources/new", params=place).text
    assert "messages in the selected folders" in page
    assert 'type="password" id="secret" name="secret" autocomplete="off" maxlength="16384" required' in " ".join(
        page.split()
    )
    assert 'name="consent" value="true" required' in page


def test_added_source_has_its_schedule_and_settings(home: Home, client: TestClient, vault: Path) -> None:
    place = {"kind": "obsidian", "location": str(vault), "name": "notes", "every": "15m", "watch": "true"}
    at, page = post(client, "sources.add", **place, settings="exclude=*.tmp\nlimits.max_mb=20", reason="mine")
    assert at == "/sources/notes"
    assert "Added notes: Vault: Obsidian vault" in result_of(page)
    entry = desk_of(home).entry("notes")
    assert (str(entry.schedules[0]), entry.watch) == ("every 15 min", True)
    assert entry.settings.exclude == ("*.tmp",)  # type: ignore[attr-defined]
    assert history(home) == ["added mine"]


def test_typed_secret_is_kept_in_one_private_file(
    home: Home,
    client: TestClient,
    hub: GitHubServer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    at, page = post(client, "sources.add", **github(hub))
    assert (at, "Added plots" in result_of(page)) == ("/sources/plots", True)
    [file] = home.secrets.iterdir()
    assert [stat.S_IMODE(place.stat().st_mode) for place in (file, home.secrets)] == [0o600, 0o700]
    assert file.read_text() == SECRET
    assert desk_of(home).entry("plots").settings.token == f"file:{file}"  # type: ignore[attr-defined]
    everywhere = [place for place in home.path.rglob("*") if place.is_file() and SECRET.encode() in place.read_bytes()]
    assert everywhere == [file]
    texts = [client.get(f"/sources/plots{part}").text for part in ("", "/settings", "/consent", "/limits")]
    answer = client.get("/api/v1/sources/plots/settings", headers={"Authorization": f"Bearer {TOKEN}"}).text
    out, err = capfd.readouterr()
    assert not any(SECRET in text for text in (at, page, *texts, answer, caplog.text, out, err))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"secret": "wrong-and-secret"}, "token"),
        ({"consent": ""}, "consent"),
        ({"location": "ada"}, "not a repository"),
        ({"settings": "inclde=issues"}, "unknown setting"),
        ({"settings": "=issues"}, "value missing"),
        ({"settings": "token=env:TOKEN"}, "token"),
        ({"name": "Plots!"}, "invalid name"),
        ({"name": "../plots"}, "invalid name"),
        ({"every": "1s"}, "Invalid interval"),
        ({"until": "2020-01-01"}, "in the past"),
        ({"until": "soon"}, "until"),
        ({"kind": "local_files", "location": "/tmp"}, "needs none"),
    ],
)
def test_failed_add_leaves_no_file_and_no_source(
    home: Home, client: TestClient, hub: GitHubServer, fields: dict[str, str], problem: str
) -> None:
    form = {name: value for name, value in github(hub, **fields).items() if value}
    at, page = post(client, "sources.add", "/sources/new?kind=github", **form)
    assert at == "/sources/new?kind=github"
    assert ">Not done</span>" in result_of(page)
    assert problem in result_of(page)
    assert [*home.path.glob("secrets/*")] == []
    assert desk_of(home).entries() == {}
    assert form["secret"] not in page
    assert not any(form["secret"].encode() in content for content in files(home).values())
    if (home.path / "ledger.db").exists():
        assert history(home) == []


def test_taken_name_keeps_the_secret_of_its_source(home: Home, client: TestClient, hub: GitHubServer) -> None:
    post(client, "sources.add", **github(hub))
    before = files(home)
    _, page = post(client, "sources.add", **github(hub, settings="include=pulls"))
    assert "already exists" in result_of(page)
    assert files(home) == before


def test_removed_source_takes_its_own_secret_along(home: Home, client: TestClient, hub: GitHubServer) -> None:
    post(client, "sources.add", **github(hub))
    [first] = home.secrets.iterdir()
    shared = {"name": "again", "secret": "", "settings": f"include=issues\ntoken=file:{first}"}
    post(client, "sources.add", **github(hub, **shared))
    post(client, "sources.remove", name="again", confirm="again")
    assert first.exists(), "plots needs it"
    post(client, "sources.remove", name="plots", confirm="plots")
    assert [*home.secrets.iterdir()] == []


def test_new_secret_replaces_the_one_before(home: Home, client: TestClient, hub: GitHubServer) -> None:
    post(client, "sources.add", **github(hub))
    [first] = home.secrets.iterdir()
    before = files(home)
    _, page = post(client, "sources.change", name="plots", secret="a-wrong-one")
    assert ">Not done</span>" in result_of(page), "it is tried first"
    assert files(home) == before
    hub.tokens["another-one"] = "ada"
    _, page = post(client, "sources.change", name="plots", secret="another-one")
    assert "plots: changed; the login works" in result_of(page)
    [second] = home.secrets.iterdir()
    assert (second != first, second.read_text()) == (True, "another-one")
    assert "another-one" not in page
    before = files(home)
    _, page = post(client, "sources.change", name="plots", secret="a third", settings=f"address={hub.web}:1")
    assert ">Not done</span>" in result_of(page)
    assert files(home) == before


@pytest.mark.parametrize("action", ["sources.remove", "consents.revoke"])
def test_deletion_needs_the_name_typed(notes: Home, client: TestClient, action: str) -> None:
    before = files(notes)
    for confirm in ("", "note", "Notes"):
        _, page = post(client, action, "/sources/notes/settings", name="notes", confirm=confirm)
        assert "type the name of the source, notes" in result_of(page)
    assert files(notes) == before
    _, page = post(client, action, name="notes", confirm="notes")
    assert ">Done</span>" in result_of(page)


def test_change_is_previewed_before_it_is_made(notes: Home, client: TestClient) -> None:
    before = files(notes)
    page = client.get("/sources/notes/settings?key=exclude&value=*.tmp&every=1h&watch=yes").text
    for key in ("exclude", "schedule", "watch"):
        assert f'<th scope="row">{key}</th>' in page.partition("What would change")[2].partition("</table>")[0]
    assert 'name="settings" value="exclude=*.tmp"' in page
    assert files(notes) == before
    _, page = post(client, "sources.change", name="notes", settings="exclude=*.tmp", every="1h", watch="yes")
    assert "notes: changed" in result_of(page)
    assert "Synced every 1 h and on change" in page


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("root=/tmp", "cannot change root"),
        ("exclud=x", "did you mean exclude"),
        ("limits.max_mb=lots", "limits.max_mb"),
    ],
)
def test_wrong_change_is_refused(notes: Home, client: TestClient, settings: str, problem: str) -> None:
    before = files(notes)
    key, _, value = settings.partition("=")
    assert problem in client.get("/sources/notes/settings", params={"key": key, "value": value}).text
    assert problem in result_of(
        post(client, "sources.change", "/sources/notes/settings", name="notes", settings=settings)[1]
    )
    assert files(notes) == before


def test_reference_to_a_secret_is_not_typed_into_an_address(home: Home, client: TestClient, hub: GitHubServer) -> None:
    post(client, "sources.add", **github(hub))
    page = client.get("/sources/plots/settings").text
    assert re.findall(r"<option>(include|token|repositories)</option>", page) == ["include"]


def test_settings_are_what_it_reads_when_and_more(notes: Home, client: TestClient) -> None:
    page = client.get("/sources/notes/settings").text
    reads, when, more = (page.index(title) for title in ("<h2>What it reads", "<h2>When", "<summary>More"))
    assert reads < page.index('<tr data-row><th scope="row">root') < when < page.index('name="cron"') < more
    assert more < page.index('<tr data-row><th scope="row">keep_days') < page.index("Remove notes and its documents")


def test_plan_names_the_first_changes(notes: Home, client: TestClient) -> None:
    page = client.get("/sources/notes/plan").text
    assert "<dt>Add</dt><dd>4 items" in page
    assert "Girder.md" in page
    assert "3 differences" not in client.get("/sources/notes/prove").text


@pytest.mark.parametrize(("part", "command"), [("plan", "catchment plan notes"), ("prove", "catchment prove notes")])
def test_slow_preview_names_the_command(
    notes: Home, client: TestClient, monkeypatch: pytest.MonkeyPatch, part: str, command: str
) -> None:
    changes = Obsidian.changes

    def slowly(*arguments: Any, **more: Any) -> Any:
        time.sleep(0.1)
        return changes(*arguments, **more)

    monkeypatch.setattr(Obsidian, "changes", slowly)
    monkeypatch.setattr(previews, "SECONDS", 0.0)
    response = client.get(f"/sources/notes/{part}")
    assert (response.status_code, command in response.text) == (504, True)


def test_one_preview_is_made_at_a_time(notes: Home, client: TestClient) -> None:
    with previews._alone():
        assert "another plan or proof" in client.get("/sources/notes/plan").text
    assert client.get("/sources/notes/plan").status_code == 200


def test_consent_ends_with_the_day(notes: Home, client: TestClient) -> None:
    day = (datetime.now(UTC) + timedelta(days=30)).date()
    post(client, "consents.give", name="notes", until=day.isoformat())
    [row] = client.get("/api/v1/sources/notes/consent", headers={"Authorization": f"Bearer {TOKEN}"}).json()["scopes"]
    ends = datetime.fromisoformat(row["consent"]["expires"]).astimezone()
    assert (ends.date(), ends.hour) == (day, 23)


@pytest.fixture
def nothing_collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep all cursors, as frames in a cycle may: SQLite counts a result that is not read to its end as a reader."""
    cursors: list[object] = []

    def keep(_connection: object, cursor: object, *_: object) -> None:
        cursors.append(cursor)

    monkeypatch.setattr(vacuum, "_LOG_SECONDS", 0.0)
    event.listen(Engine, "after_cursor_execute", keep)
    yield
    event.remove(Engine, "after_cursor_execute", keep)


@pytest.mark.usefixtures("nothing_collected")
def test_scope_without_documents_can_be_withdrawn_alone(home: Home, client: TestClient, hub: GitHubServer) -> None:
    post(client, "sources.add", **github(hub, settings="include=[issues, code]", secret=""))
    page = client.get("/sources/plots/consent?scope=discussions").text
    assert "<strong>0 documents</strong> would be deleted" in page
    at, page = post(client, "consents.revoke", name="plots", confirm="plots", scope="discussions")
    assert "consent withdrawn; 0 items deleted" in result_of(page)
    page = client.get(at).text
    assert page.count("Withdrawn") == 1
    assert client.get("/sources/plots/consent?scope=nope").status_code == 404


def limits_of(home: Home, where: str) -> dict[str, Any]:
    ledger = Ledger.inspect(home, read_only=True)
    try:
        return ledger.throttles.get(where).as_json()
    finally:
        ledger.close()


def test_limits_are_set_and_emptied_by_a_form(notes: Home, client: TestClient) -> None:
    windows = "08:00-18:00 mon-fri,sun\r\n22:00-23:00"
    fields = {"per_hour": "500", "active": "", "profile": "conservative", "blackouts": windows, "paused": "true"}
    at, page = post(client, "limits.change", name="source:notes", **fields, reason="daytime is mine")
    assert at == "/sources/notes/limits"
    assert limits_of(notes, "source:notes") == {
        "paused": True,
        "why": "daytime is mine",
        "profile": "conservative",
        "per_hour": 500,
        "blackouts": ("08:00-18:00 mon-fri,sun", "22:00-23:00"),
    }
    assert "Held back now" in page
    post(client, "limits.change", name="source:notes", per_hour="", paused="false", profile="", blackouts="")
    assert limits_of(notes, "source:notes") == {}


def test_program_changes_only_the_limits_that_it_gives(notes: Home, client: TestClient) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}

    def change(**fields: Any) -> httpx.Response:
        return client.post("/api/v1/actions/limits.change", json={"name": "all", **fields}, headers=headers)

    assert change(per_hour=5, active=3).status_code == 200
    assert change(active=None).json()["result"] == "per hour 5"
    for wrong in ({"per_hour": 0}, {"profile": "ludicrous"}, {"colour": 1}, {"blackouts": ["all day"]}):
        assert change(**wrong).status_code == 400
    assert limits_of(notes, "all") == {"per_hour": 5}


def test_limits_of_an_unknown_scope_are_refused(notes: Home, client: TestClient) -> None:
    assert client.get("/sources/limits?scope=source:nope").status_code == 400
    assert client.get("/sources/nope/limits").status_code == 404


def test_package_that_cannot_be_used_is_named_and_not_offered(home: Home, client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    sources.add(desk_of(home), NewSource("local_files", str(tmp_path / "papers"), "papers"), "anna")
    with site_of(tmp_path) as site:
        install(site, "import no_such_module")
        assert "shelf: catchment-shelf cannot be loaded (ModuleNotFoundError" in client.get("/sources").text
        assert "kind=shelf" not in client.get("/sources/new").text
        install(site)
    with site_of(tmp_path):
        page = client.get("/sources/new?kind=shelf").text
        assert "List of books" in page
        assert "cannot be loaded" not in client.get("/sources").text
