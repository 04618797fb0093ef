"""`/api/v1` on a real home: its description in OpenAPI against the routes and real answers, and streams of views."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from jsonschema import Draft202012Validator
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route, compile_path
from starlette.testclient import TestClient

from catchment.ledger import BackfillSelection, Ledger
from catchment.model import JobState, ReplayStage
from catchment.runtime.home import Home
from deployments.actions import quarantine
from deployments.actions.quarantine import Selection
from tests.console.test_actions import _job, _sync_with_held_deletions, an_incident
from tests.golden.openapi import DESCRIPTION, served
from tests.web.conftest import connected
from tests.web.conftest import served as serving
from web.__main__ import desk_of
from web.action_table import ACTIONS
from web.app import Web, application
from web.guard import Guard
from web.pages import audit, backfills, document, health, jobs, sources, syncs, trends, trouble, why
from web.readiness import Readiness
from web.warm_library import WarmLibrary

PORT, TOKEN = 8000, "the token"
DESCRIBED: dict[str, Any] = json.loads(DESCRIPTION.read_text())
ONLY_PAGE = {"page", "q"}
"""Parameters that change the page and not its view."""
SAMPLES = {
    "/overview": "/overview",
    "/backfills": "/backfills?source=notes",
    "/backfills/{number}": "/backfills/BACKFILL",
    "/completions": "/completions?name=tag&start=be",
    "/hosts": "/hosts",
    "/health": "/health",
    "/health/trends": "/health/trends?range=30d&source=notes",
    "/trouble": "/trouble",
    "/trouble/clusters/{name}": "/trouble/clusters/CLUSTER?source=notes&job=JOB",
    "/trouble/sources/{name}": "/trouble/sources/notes",
    "/trouble/deletions/{name}": "/trouble/deletions/notes?folder=Bees",
    "/incidents": "/incidents",
    "/incidents/{number}": "/incidents/1",
    "/sources": "/sources",
    "/sources/new": "/sources/new?kind=local_files&location=/nowhere&name=more",
    "/sources/limits": "/sources/limits?scope=kind:imap",
    "/sources/{name}": "/sources/notes",
    "/sources/{name}/settings": "/sources/notes/settings?key=preset&value=local",
    "/sources/{name}/consent": "/sources/notes/consent",
    "/sources/{name}/limits": "/sources/notes/limits",
    "/sources/{name}/plan": "/sources/notes/plan?deep=1",
    "/sources/{name}/prove": "/sources/notes/prove",
    "/syncs": "/syncs?source=notes&span=24h",
    "/syncs/{number}": "/syncs/1?kind=added",
    "/jobs": "/jobs?state=quarantined&source=notes",
    "/jobs/{number}": "/jobs/JOB",
    "/audit": "/audit?source=notes",
    "/why": "/why?item=broken.pdf",
    "/documents/{document}": "/documents/1",
    "/documents/{document}/versions": "/documents/1/versions",
    "/documents/{document}/diff": "/documents/1/diff",
    "/search": "/search?text=swarm",
}


@pytest.fixture
def library(filled: Path) -> WarmLibrary:
    return WarmLibrary(Home(filled), lambda _reason: None)


@pytest.fixture
def web(filled: Path, library: WarmLibrary) -> Web:
    return application(library, Readiness(library, None), desk_of(Home(filled)), TOKEN)


@pytest.fixture
def client(web: Web) -> TestClient:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return TestClient(Guard(web.app, web.check, PORT), base_url=f"http://127.0.0.1:{PORT}", headers=headers)


@pytest.fixture
def names(filled: Path) -> dict[str, str]:
    """The values for words in capitals in `SAMPLES`, in a home with a trouble of each kind that has a page."""
    desk = desk_of(Home(filled))
    _sync_with_held_deletions(desk)
    with closing(sqlite3.connect(filled / "ledger.db")) as ledger, ledger:
        ledger.execute("INSERT INTO breakers (key, failures, opened, locked) VALUES ('host:a.org', 5, 1, 1)")
    an_incident(desk)
    with desk.reading() as ledger:
        cluster = ledger.quarantine.clusters()[0].id
    what = BackfillSelection(ReplayStage.EMBED)
    with desk.writing() as ledger:
        source = ledger.sources.get("notes").id
        backfill = ledger.backfills.plan(source, what, ledger.backfills.survey(source, what, "1.1"), "anna")
    return {"CLUSTER": cluster, "JOB": str(_job(desk, JobState.QUARANTINED)), "BACKFILL": str(backfill)}


def sample(path: str, names: dict[str, str]) -> str:
    return re.sub("[A-Z]{2,}", lambda word: names[word[0]], SAMPLES[path])


def test_file_is_what_the_process_serves() -> None:
    if served() != DESCRIBED:
        pytest.fail("/api/v1 changed; run: python -m tests.golden.openapi, and read the diff", pytrace=False)


def test_each_route_and_method_is_described_and_no_other(web: Web) -> None:
    assert isinstance(web.app, Starlette)
    there = {
        (path, method)
        for path, method in _routes(web.app.routes)
        if path.startswith("/api/") or path in ("/live", "/ready")
    }
    acting = {(f"/api/v1/actions/{name}", "post") for name in ACTIONS}
    expected = there - {("/api/v1/actions/{name}", "post")} | acting
    assert {(path, method) for path, methods in DESCRIBED["paths"].items() for method in methods} == expected


def _routes(routes: Iterable[BaseRoute], above: str = "") -> Iterator[tuple[str, str]]:
    for route in routes:
        if isinstance(route, Mount):
            yield from _routes(route.routes, above + route.path)
        elif isinstance(route, Route):
            for method in (route.methods or set()) - {"HEAD"}:
                yield re.sub(r":\w+}", "}", above + route.path), method.lower()


def test_every_view_has_a_sample() -> None:
    # Need a model, a stream, itself, another token.
    without = {"/related", "/events", "/openapi.json", "/documents/{key}/state"}
    views = {path.removeprefix("/api/v1") for path, methods in DESCRIBED["paths"].items() if "get" in methods}
    assert views - without - {"/live", "/ready"} == SAMPLES.keys()


def test_answer_is_as_described(client: TestClient, names: dict[str, str]) -> None:
    for path in SAMPLES:
        answer = client.get(f"/api/v1{sample(path, names)}")
        assert answer.status_code == 200, answer.text
        content = DESCRIBED["paths"][f"/api/v1{path}"]["get"]["responses"]["200"]["content"]
        schema = _strict({**content["application/json"]["schema"], "components": DESCRIBED["components"]})
        Draft202012Validator.check_schema(schema)
        assert [error.message for error in Draft202012Validator(schema).iter_errors(answer.json())] == [], path


def _strict(schema: Any) -> Any:
    """Return a schema that forbids fields that it does not name."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if schema.get("type") == "object" and "properties" in schema else {}
    return closed | {name: _strict(one) for name, one in schema.items()}


class _Recorded(dict[str, str]):
    """The parameters of a view; remembers the requested names."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


def test_view_uses_the_described_parameters(library: WarmLibrary, names: dict[str, str]) -> None:
    desk = desk_of(library.home)
    modules = (trouble, sources, syncs, jobs, why)
    pages = [
        *backfills.PAGES,
        *document.PAGES,
        *health.PAGES,
        *trends.PAGES,
        *audit.PAGES,
        *(page for module in modules for page in module.pages(desk)),
    ]
    for path in SAMPLES.keys() - {"/search", "/overview", "/completions", "/hosts"}:
        page = next(page for page in pages if re.sub(r":\w+}", "}", page.path) == path)
        address = urlsplit(sample(path, names))
        match = compile_path(page.path)[0].match(address.path)
        assert match is not None
        parameters = _Recorded({**dict(parse_qsl(address.query)), **match.groupdict()})
        page.data(library, parameters)
        assert parameters.asked - match.groupdict().keys() - ONLY_PAGE == set(page.query), path


def test_unknown_parameter_is_refused_by_name(client: TestClient) -> None:
    answer = client.get("/api/v1/jobs?colour=red")
    assert (answer.status_code, "colour" in answer.json()["error"]) == (400, True)
    assert client.get("/api/v1/trouble?after=1").status_code == 400


def test_stream_sends_a_view_at_first_and_after_each_change(filled: Path) -> None:
    home = Home(filled)
    with serving(home) as port, connected(home, port) as client:
        for view, status in (("/sources?colour=red", 400), ("/nope", 404), ("", 404), ("/sources/other", 404)):
            assert client.get("/api/v1/events", params={"view": view}).status_code == status
        address = f"http://127.0.0.1:{port}/api/v1/events?view=/sources"
        assert httpx.get(address, trust_env=False).status_code == 401
        events = _events(client, "/sources/notes")
        name, first = next(events)
        assert (name, first) == ("view", client.get("/api/v1/sources/notes").json())
        with closing(Ledger.open(home)) as ledger:
            ledger.sources.pause("notes", "test", "for a while")
        _, changed = next(events)
        assert changed["line"]["standing"]["state"] == "paused"


def test_stream_says_when_its_view_is_gone(filled: Path) -> None:
    home = Home(filled)
    with closing(Ledger.open(home)) as ledger:
        cluster = ledger.quarantine.clusters()[0].id
        with serving(home) as port, connected(home, port) as client:
            events = _events(client, f"/trouble/clusters/{cluster}")
            assert next(events)[0] == "view"
            quarantine.discard(desk_of(home), Selection(source="notes"), "test")
            # Other processes of the system may change the view before.
            problem = next(found for name, found in events if name == "error")
            assert list(problem) == ["error"]


def _events(client: httpx.Client, view: str) -> Iterator[tuple[str, Any]]:
    with client.stream("GET", "/api/v1/events", params={"view": view}) as response:
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line[7:]
            if line.startswith("data: "):
                yield name, json.loads(line[6:])
