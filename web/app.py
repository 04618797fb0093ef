"""The application: the pages, their live parts, `/api/v1`, and the probes `/live` and `/ready`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from catchment.errors import CatchmentError
from catchment.runtime.server_report import ServerReport
from catchment.search.completions import completions
from catchment.views.hosts import HostStanding, hosts
from catchment.views.library import overview
from catchment.views.status import Overview
from deployments.actions.desk import Desk
from web import action_table
from web.guard import Check, error
from web.json_interface import JsonInterface, SharedView, status_of, view_event
from web.live import Live
from web.observer import METRICS_PATH, Metrics, Observer, metrics_check
from web.openapi import description
from web.pages import audit, backfills, document, health, jobs, library, signin, sources, syncs, trends, trouble, why
from web.push.door import PushDoor
from web.readiness import Readiness
from web.sessions import Sessions
from web.site import Site, WebPage
from web.warm_library import WarmLibrary

_TABS, _FEEDS = 40, 10
"""Open streams of pages and of programs."""
_WARM_SECONDS = 60
_COLD_SECONDS = 5
"""Interval of checks for embeddings or a model."""


@dataclass(frozen=True, slots=True)
class Web:
    """The application, the check of its requests, and the function to call at the signal to stop."""

    app: ASGIApp
    check: Check
    stop: Callable[[], None]


def application(
    warm_library: WarmLibrary,
    readiness: Readiness,
    desk: Desk,
    token: str,
    on_start: Callable[[], None] = lambda: None,
    metrics: Metrics | None = None,
    judge: Callable[[], None] = lambda: None,
) -> Web:
    """Build the application. Calls `on_start` when it can respond. `token`: the token of `/api/v1`.

    `metrics` are stored and served, and `judge` is called every ten seconds; without `metrics`, neither happens.
    """
    sessions = Sessions(warm_library.home)
    pages = (
        *(page for module in (library, document, health, trends, audit, backfills) for page in module.PAGES),
        *(page for module in (trouble, sources, syncs, jobs, why) for page in module.pages(desk)),
    )
    site = Site(warm_library, readiness, pages, trouble.count)

    def read_overview(library: WarmLibrary, _parameters: Mapping[str, str]) -> Overview:
        # A sync that has just ended may have solved a problem.
        with suppress(CatchmentError):
            judge()
        return overview(library.ledger, library.home, desk.server_url(), desk.report(), library.unsaved())

    views = [
        *(SharedView(page.path, page.shared, page.query, _view_of(page)) for page in pages if page.shared is not None),
        SharedView("/overview", Overview, (), read_overview),
        SharedView("/hosts", list[HostStanding], (), _hosts),
        SharedView("/completions", list[str], ("name", "start"), _completions),
    ]
    door = PushDoor(warm_library, desk)
    interface = JsonInterface(warm_library, views)
    live, feed = Live(site.stamp, site.parts, _TABS), Live(site.stamp, interface.parts, _FEEDS, view_event)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        background = [readiness.tick(), _keep_warm(warm_library), live.poll(), feed.poll()]
        if metrics is not None:
            background += [Observer(judge, metrics.sample, metrics.roll).run(), metrics.push()]
        tasks = [asyncio.create_task(task) for task in background]
        on_start()
        yield
        for task in tasks:
            task.cancel()

    async def is_live(_request: Request) -> Response:
        return JSONResponse({"live": True}) if readiness.is_live() else error(503, "the event loop was blocked")

    async def is_ready(_request: Request) -> Response:
        state = await readiness.state()
        return JSONResponse(state, 200 if state["ready"] else 503)

    async def describe(_request: Request) -> Response:
        return JSONResponse(await to_thread.run_sync(description, views, action_table.ACTIONS))

    def stop() -> None:
        live.stop()
        feed.stop()

    async def error_response(request: Request, failure: Exception) -> Response:
        status, problem, headers = 500, "internal error; see `catchment logs web`", dict[str, str]()
        if isinstance(failure, HTTPException):
            status, problem, headers = failure.status_code, failure.detail, dict(failure.headers or {})
        elif isinstance(failure, CatchmentError):
            status, problem = status_of(failure), str(failure)
        if request.scope.get("session") is None or request.url.path.startswith("/static/"):
            return error(status, problem, headers)
        return await site.failure_page(request, status, problem)

    routes: list[BaseRoute] = [
        *site.routes,
        *signin.routes(sessions, site, readiness, warm_library.home.signin_keys),
        document.file_route(warm_library),
        document.page_route(warm_library),
        Route("/events", live.respond),
        *action_table.forms(desk, site),
        Mount(
            "/api/v1",
            routes=[
                *door.routes,
                *interface.routes,
                *action_table.interface(desk),
                interface.events_route(feed.respond),
                Route("/openapi.json", describe),
            ],
        ),
        Mount("/static", StaticFiles(packages=[("web", "static")])),
        Route("/live", is_live),
        Route("/ready", is_ready),
        *([metrics.route] if metrics else []),
    ]
    checks = {METRICS_PATH: metrics_check(warm_library.home)} if metrics else {}
    handlers = dict.fromkeys((HTTPException, CatchmentError, Exception), error_response)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    return Web(app, sessions.check(token, site.signin_page, checks, door), stop)


def _view_of(page: WebPage) -> Callable[[WarmLibrary, Mapping[str, str]], object]:
    return lambda library, parameters: page.data(library, parameters)["view"]


def _hosts(library: WarmLibrary, _parameters: Mapping[str, str]) -> list[HostStanding]:
    return hosts(library.ledger, ServerReport.read(library.home))


def _completions(library: WarmLibrary, parameters: Mapping[str, str]) -> list[str]:
    return completions(library.ledger, parameters.get("name", ""), parameters.get("start", ""))


async def _keep_warm(library: WarmLibrary) -> None:
    """Load the model and the vectors as soon as there are any, and make missing embeddings every second, until cancelled."""
    alone = CapacityLimiter(1)
    while True:
        is_warm = await to_thread.run_sync(library.warm, limiter=alone)
        if not is_warm:
            await asyncio.sleep(_COLD_SECONDS)
            continue
        for _ in range(_WARM_SECONDS):
            await to_thread.run_sync(library.embed_few, limiter=alone)
            await asyncio.sleep(1)
