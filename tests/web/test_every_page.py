"""Every page and every view, over a library with sources, jobs, hosts, backfills and incidents in all states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import cycle

import pytest
from jinja2 import UndefinedError
from sqlalchemy import insert
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from catchment.ledger import BackfillSelection, Incident, Ledger, SinkState
from catchment.ledger.db.schema import hosts
from catchment.model import Priority, ReplayStage
from catchment.pacing.limits import HostLimits
from catchment.pacing.metered import Ask, Report
from catchment.pacing.operator_rules import Rule
from catchment.runtime.home import Home
from catchment.runtime.process import identity
from catchment.runtime.server_report import PlannedRun, ServerReport
from catchment.telemetry.incidents import ReasonCode
from deployments.actions import sources
from deployments.actions.sources import NewSource
from tests.ledger.world import PARSE_ERROR, Clock, World, note
from tests.web.conftest import PROJECT
from tests.web.test_signin import TOKEN, browser, built, sign_in
from web.__main__ import desk_of
from web.action_table import ACTIONS
from web.guard import defect
from web.site import _templates
from web.warm_library import WarmLibrary

KINDS = ("obsidian", "local_files", "imap", "github", "web")
STATES = ("new", "idle", "running", "paused", "held", "limited", "blackout", "failed", "expired", "withdrawn", "asked")
SETTINGS = {"imap": {"password": "env:MAIL"}, "github": {"token": "env:TOKEN"}}
ALL = BackfillSelection(ReplayStage.NORMALIZE)


def alive(_owner: str) -> bool:
    return True


def bring(world: World, kind: str, state: str) -> None:
    """Bring a source of a kind into a state."""
    ledger, name = world.ledger, f"{kind}-{state}"
    source = ledger.sources.put(name, kind, Priority.NORMAL)
    world.source = source
    scopes = {"messages", "attachments"}
    until = world.clock.moment + timedelta(minutes=1) if state == "expired" else None
    if state == "asked":
        ledger.consents.ask(source.id, scopes)
    else:
        ledger.consents.give(source.id, scopes, "operator:anna", until)
    if state == "new":
        return
    world.sync = world.begin(source)
    world.see(note("a.md"), note("b.md"), note("c.md"))
    batch = world.claim(2)
    ledger.queue.deliver(batch.token, [world.done(batch.jobs[0])])
    ledger.queue.fail(batch.token, batch.jobs[1].id, PARSE_ERROR, retry_at=None)
    match state:
        case "running":
            return
        case "failed":
            ledger.syncs.end(world.sync.id, "failed", {}, "SourceUnavailable", "source_unavailable")
            return
        case "paused":
            ledger.sources.pause(name, "operator:anna", "on the train")
        case "held":
            ledger.sources.hold(name, "sync:1", "login refused")
        case "limited":
            ledger.throttles.put(f"source:{name}", Rule(per_hour=1), "operator:anna", "")
        case "blackout":
            ledger.throttles.put(f"source:{name}", Rule(blackouts=("00:00-23:59 UTC",)), "operator:anna", "")
        case "withdrawn":
            ledger.consents.withdraw(source.id, scopes, "operator:anna")
    ledger.syncs.end(world.sync.id, "completed", {"succeeded": 1})


@pytest.fixture(scope="module", params=["alone", pytest.param("hosts", marks=pytest.mark.postgres)])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home that works alone, and a host that shares its ledger with two others."""
    home = Home(tmp_path_factory.mktemp("every") / "home").make()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CATCHMENT_HOME", str(home.path))
        if request.param == "hosts":
            patch.setenv("CATCHMENT_DATABASE_URL", request.getfixturevalue("postgres"))
            home = Home.default()
        fill(home, is_shared=request.param == "hosts")
        yield home


def fill(home: Home, *, is_shared: bool) -> None:
    folder = home.path.parent / "Vault"
    (folder / ".obsidian").mkdir(parents=True)
    (folder / "Girder.md").write_text("The girder.")
    places = {
        "obsidian": str(folder),
        "local_files": str(folder),
        "imap": "anna@mail.example.org",
        "github": "anna/bridges",
        "web": "https://example.org/feed.xml",
    }
    for kind, place in places.items():
        entry = NewSource(kind, place, f"{kind}-idle", SETTINGS.get(kind, {})).written(desk_of(home))
        with desk_of(home).adding(entry, is_written=False):
            pass
    sources.add(desk_of(home), NewSource("local_files", str(folder), "gone"), "test")
    sources.remove(desk_of(home), "gone", "test", "")
    clock = Clock()
    world = World(home.database_url, clock, Ledger.open(home, clock=clock, monotonic=clock.steady))
    ledger = world.ledger
    for kind in KINDS:
        for state in STATES:
            bring(world, kind, state)
    for host in ("api.github.com", "mail.example.org", "example.org"):
        limits = HostLimits(host, at_once=1)
        ledger.pacing.take(Ask(limits, "github-idle", identity(), 1, False), Report(), None)
        ledger.pacing.failed(limits, "github-idle", login=host == "mail.example.org")
    ledger.pacing.ask(HostLimits("example.org", at_once=1), "web-idle", identity())
    ledger.pacing.ask(HostLimits("example.org", at_once=1), "web-paused", identity())
    for end in ("planned", "cancelled", "running", "paused"):
        source = ledger.sources.get(
            f"obsidian-{'idle' if end == 'planned' else end if end == 'paused' else 'limited'}"
        ).id
        survey = ledger.backfills.survey(source, ALL, "2")
        number = ledger.backfills.plan(source, ALL, survey, "anna")
        if end != "planned":
            ledger.backfills.start(number, survey.digest, "anna")
        if end == "paused":
            ledger.backfills.pause(number, "anna")
        if end == "cancelled":
            ledger.backfills.cancel(number, "anna")
    world.source = ledger.sources.put("moved", "obsidian", Priority.NORMAL)
    world.sync = world.begin()
    world.sees_root("disk 1")
    world.ingest(*(note(f"{number}.md") for number in range(20)))
    undone = world.sync.id
    ledger.syncs.end(undone, "completed", {"succeeded": 20})
    world.sync = world.begin()
    world.sees_root("disk 2")
    world.lose(*(f"{number}.md" for number in range(15)))
    world.settle(changed_roots=[""])
    ledger.syncs.end(world.sync.id, "completed", {})
    assert ledger.intake.holds()
    ledger.undo.undo(undone, "anna", "a mistake", alive)
    for state in SinkState:
        sink = ledger.outbox.add(f"copy-{state}", "jsonl", str(folder.parent / state), None, "anna")
        ledger.outbox.set_state(f"copy-{state}", state, "anna")
    ledger.outbox.failed(sink, "the folder is not there")
    if is_shared:
        share(home, ledger)
    now = clock.moment
    subjects = ("", "source:imap-held", "host:example.org", "sink:library", "machine:attic", "source:gone")
    ledger.incidents.save(
        [
            Incident(0, reason, subject, now, None, "full", "make room", ())
            for reason in ReasonCode
            for subject in subjects
        ]
    )
    clock.forward(minutes=5)
    ledger.close()


def share(home: Home, ledger: Ledger) -> None:
    """Let three hosts share the ledger, of which one is silent and one has stopped."""
    ledger.hosts.join("here", "operator:anna", takes_any=True, version="1")
    others = [
        {
            "id": number,
            "name": name,
            "boot": "",
            "beat_until": until,
            "joined_at": 1,
            "takes_any": False,
            "version": "1",
        }
        for number, name, until in ((2, "attic", 1), (3, "barn", 0))
    ]
    with ledger._store.write() as writing:
        writing.execute(insert(hosts), others)
    on = {"imap-idle": "attic", "web-idle": "barn", "github-idle": "any", "obsidian-idle": "here", "moved": "nowhere"}
    runs = {"web-idle": (PlannedRun(datetime.now(UTC), "schedule"),)}
    ServerReport(datetime.now(UTC), ("github-idle",), runs, on).write(home)


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[TestClient]:
    library = WarmLibrary(home, lambda _reason: None)
    client = browser(home, library)
    sign_in(client, home)
    yield client
    library.ledger.close()


def routes(home: Home) -> tuple[list[str], list[str]]:
    """Return the paths of the pages and of the views, with their parameters."""
    all_routes = built(home).app.routes  # type: ignore[attr-defined]
    api = next(route for route in all_routes if isinstance(route, Mount) and route.path == "/api/v1")
    return (
        [route.path for route in all_routes if isinstance(route, Route) and "GET" in (route.methods or ())],
        [f"/api/v1{route.path}" for route in api.routes if isinstance(route, Route) and "GET" in (route.methods or ())],
    )


def addresses(home: Home, path: str) -> list[str]:
    """Return the addresses of a route: with sources, hosts and numbers of the library, and with unknown ones."""
    if "{" not in path:
        return [path]
    names = [f"{kind}-{state}" for kind, state in zip(cycle(KINDS), STATES, strict=False)]
    names += ["obsidian-idle", "moved", "gone", "nope", "host:example.org"]
    numbers = range(1, 70, 4) if re.search(r"/(syncs|jobs)/", path) else range(1, 12)
    values = [*map(str, numbers)] if ":number" in path else names
    return [re.sub(r"\{[a-z]+(:[a-z]+)?\}", value, path) for value in values]


STREAMS = ("/events", "/signin", "/signout")


@pytest.mark.full
def test_no_page_and_no_view_fails_in_any_state(home: Home, client: TestClient) -> None:
    pages, views = routes(home)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    number = 0
    for path in (*pages, *views):
        if path.removeprefix("/api/v1") in STREAMS:
            continue
        for address in addresses(home, path):
            response = client.get(address, headers=headers if path.startswith("/api/v1") else {})
            assert response.status_code != 500, (address, response.text[:300])
            number += response.status_code == 200
    assert number > 200


NUMBERS = (
    "0",
    "999999999999999999",
    "4611686018427387905",
    "9223372036854775807",
    "9223372036854775808",
    "9" * 40,
    "٣",
    "-1",
)
VALUES = ("", "x", "9" * 30, "9223372036854775808", "-1", "\0", "//[", "٣", "0001-01-01", "9999-12-31T23:59:59-14:00")
NAMES = "after as_of by cause cluster expected item job kind name page part q scope since source start state until view"


@pytest.mark.parametrize("name", ["head", "source", "runs", "holds"])
def test_page_of_a_source_has_its_live_part_once(home: Home, client: TestClient, name: str) -> None:
    shown = {address: client.get(address) for address in addresses(home, "/sources/{name}")}
    pages = {address: page.text for address, page in shown.items() if page.status_code == 200}
    assert pages
    for address, page in pages.items():
        part = client.get(f"{address}?part={name}").text
        assert (part.count(f'id="{name}"'), page.count(f'id="{name}"')) == (1, 1), address
        assert ("What it holds" in part and "Next runs" in part) == (name == "holds")


def answers(client: TestClient, path: str, **query: str) -> int:
    headers = {"Authorization": f"Bearer {TOKEN}"} if path.startswith("/api/v1") else {}
    return client.get(path, params=query, headers=headers).status_code


@pytest.mark.parametrize("value", NUMBERS)
def test_odd_number_in_an_address_fails_no_page(home: Home, client: TestClient, value: str) -> None:
    tried = [path for paths in routes(home) for path in paths if ":number" in path]
    assert len(tried) > 10
    for path in tried:
        address = re.sub(r"\{[a-z]+:number\}", value, path)
        assert answers(client, address) in (404, 405), address
    page = next(path for path in tried if path.startswith("/incidents"))
    assert answers(client, "/count", view=re.sub(r"\{.*\}", value, page)) == 200
    assert answers(client, "/api/v1/events", view=re.sub(r"\{.*\}", value, page)) == 404


@pytest.mark.long
@pytest.mark.parametrize("value", VALUES)
def test_odd_query_fails_no_page(home: Home, client: TestClient, value: str) -> None:
    for path in (*routes(home)[0], *routes(home)[1]):
        if path.removeprefix("/api/v1") in STREAMS:
            continue
        address = re.sub(r"\{[a-z]+(:[a-z]+)?\}", "1", path)
        for name in NAMES.split():
            assert answers(client, address, **{name: value}) != 500, (address, name)


@pytest.mark.parametrize("view", ["x", "", "[", "http://[", "trouble"])
def test_view_that_is_no_address_is_refused(client: TestClient, view: str) -> None:
    assert answers(client, "/count", view=view) == 400
    assert answers(client, "/events", view=view) == 400
    assert answers(client, "/api/v1/events", view=view) == 404


@pytest.mark.parametrize("view", ["//[", "/trouble?after=x", "/%", "/\0", "//"])
def test_odd_view_has_tabs(client: TestClient, view: str) -> None:
    assert answers(client, "/count", view=view) == 200


def test_page_of_a_busy_process_says_so(home: Home, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.warm_library._WAITING", 0)
    for path in (*routes(home)[0], *routes(home)[1]):
        if path.removeprefix("/api/v1") in (*STREAMS, "/live", "/ready", "/openapi.json", "/documents/{key}/state"):
            continue
        for address in addresses(home, path)[:2]:
            for part in ("", "?part=main"):
                headers = {"Authorization": f"Bearer {TOKEN}"} if path.startswith("/api/v1") else {}
                response = client.get(f"{address}{part}", headers=headers)
                is_refused_first = path.startswith("/api/v1") and (part or path.endswith(("/search", "/related")))
                assert response.status_code == (400 if is_refused_first else 503), address
                assert is_refused_first or "busy; try again" in response.text, address


DAYS = ("0001-01-01", "9999-12-31", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
ODD = (True, False, *DAYS, 2**63, "", "\0", [], 1e300)


@pytest.mark.parametrize("name", sorted({*ACTIONS} - {"backups.make"}))
def test_odd_field_fails_no_action(client: TestClient, name: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    required = {
        "name": "nope",
        "confirm": "nope",
        "number": 10**6,
        "kind": "obsidian",
        "location": "/nope",
        "days": 36_500,
    }
    fields = ACTIONS[name].fields.__pydantic_fields__
    required_fields = {field: required[field] for field in fields if field in required}
    for field in fields:
        for value in ODD:
            response = client.post(f"/api/v1/actions/{name}", json={**required_fields, field: value}, headers=headers)
            assert response.status_code != 500, (field, value)
            if isinstance(value, bool) and field in ("number", "expected", "jobs", "days", "at_once", "debounce"):
                assert response.status_code == 400, field


@pytest.mark.parametrize(("data", "name"), [({}, "open_rows"), ({"open_rows": ()}, "source")])
def test_log_names_template_line_and_variable(data: dict[str, object], name: str) -> None:
    with pytest.raises(UndefinedError) as failure:
        _templates().get_template("case_source.html").render(ui=_templates().globals["ui"], **data)
    defect_line = re.fullmatch(r"UndefinedError in (web/templates/\w+\.html), line (\d+): (\w+)", defect(failure.value))
    assert defect_line and defect_line[3] == name
    assert name in (PROJECT / defect_line[1]).read_text().splitlines()[int(defect_line[2]) - 1]


_FORM = re.compile(r"<form\b[^>]*action=\"/actions/([a-z_.]+)\"[^>]*>(.*?)</form>", re.DOTALL)
_ELSEWHERE = re.compile(r"<(?:input|select|textarea|button)\b[^>]*\bform=\"([^\"]+)\"[^>]*\bname=\"([^\"]+)\"")
_ID = re.compile(r"<form id=\"([^\"]+)\"[^>]*action=\"/actions/([a-z_.]+)\"")
_NAME = re.compile(r"<(?:input|select|textarea|button)\b[^>]*\bname=\"([^\"]+)\"")


@pytest.mark.full
def test_each_form_has_the_fields_of_its_action(home: Home, client: TestClient) -> None:
    form_actions = set()
    for path in routes(home)[0]:
        if path in STREAMS:
            continue
        for address in addresses(home, path):
            text = client.get(address).text
            outside = {
                (action, name)
                for id_, action in _ID.findall(text)
                for of, name in _ELSEWHERE.findall(text)
                if of == id_
            }
            for action, content in _FORM.findall(text):
                names = set(map(unescape, _NAME.findall(content))) | {name for of, name in outside if of == action}
                assert "form" in names, (address, action)
                fields = ACTIONS[action].fields.__pydantic_fields__
                needed = {name for name, field in fields.items() if field.is_required()}
                assert needed <= names - {"form"} <= fields.keys(), (address, action, names)
                form_actions.add(action)
    assert len(form_actions) > 15, form_actions
