"""The pages: an address, a template and the data for it, within the frame that all pages share.

A page names the blocks of its template that change while it is open. The same block is rendered for the whole page, as a
fragment (`?part=NAME`) and as a live part, whose element has the ID of the block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route, compile_path
from starlette.types import Scope

from catchment.errors import CatchmentError, LedgerError, NotFound
from catchment.runtime.home import Home
from catchment.runtime.reports.backup_status import BackupStatus
from catchment.runtime.server_report import ServerReport
from catchment.runtime.watch_status import WatchReport
from catchment.runtime.worker_status import WorkerStatus
from catchment.search.meaning.meaning_status import MeaningStatus
from catchment.views.telemetry.incidents import IncidentView, opened
from web import template_filters
from web.live import view_address
from web.readiness import Readiness
from web.sessions import WebSession
from web.warm_library import WarmLibrary

Data = Mapping[str, Any]


_FRAME = ("tabs", "well", "strip")
"""Blocks of the frame that change."""
_REPORTS = (*(kind.file for kind in (WorkerStatus, ServerReport, WatchReport, BackupStatus)), "health.json")
_MINUTE = 60.0


class _Number(IntegerConvertor):
    """The number of an object in an address. Each fits the ledger: no address has a longer one."""

    regex = "[0-9]{1,18}"


register_url_convertor("number", _Number())


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page.

    Attributes:
        path: Its address, as of a Starlette route.
        template: File name of the template, which extends `frame.html`.
        data: Returns the values for the template, from the library and the parameters of path and query. Raises NotFound
            before the first source, and for an unknown object.
        live: The blocks that change while the page is open.
        needs_library: Before the first source, the page explains instead how to add a source.
        shared: The type of `data["view"]`, which is also served below `/api/v1`; None if it is not.
        query: The parameters of its query that change the view.
    """

    path: str
    template: str
    data: Callable[[WarmLibrary, Mapping[str, str]], Data]
    live: tuple[str, ...] = ()
    needs_library: bool = True
    shared: Any = None
    query: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """A message that the next page of a session shows once: the result of an action, or its refusal.

    `typed`: the fields of a refused form, without secrets.
    """

    text: str
    typed: Mapping[str, str] = field(default_factory=dict)
    is_refusal: bool = False


class Site:
    """All pages of a home. `count` returns the number of open problems, which each page shows."""

    def __init__(
        self,
        library: WarmLibrary,
        readiness: Readiness,
        pages: tuple[WebPage, ...],
        count: Callable[[WarmLibrary], int],
    ) -> None:
        self._library, self._readiness, self._count = library, readiness, count
        self._pages = [(compile_path(page.path)[0], page) for page in pages]
        self._templates = _templates()
        self._frame: tuple[object, Data] | None = None
        self._notices: dict[str, Notice] = {}

    @property
    def routes(self) -> list[Route]:
        """The routes of all pages, and `/count` for a hidden tab."""
        return [*(Route(page.path, self._handler(page)) for _, page in self._pages), Route("/count", self._show_tabs)]

    async def stamp(self) -> object:
        """Return a value that differs after each change of the library, of the system, and each minute."""
        return await self._library.read(self._read_stamp)

    async def parts(self, address: str) -> Mapping[str, str]:
        """Return the live parts of the page at an address with its query, by block. Raises CatchmentError."""
        path, _, query = address.partition("?")
        values = {**await self._frame_values(), "tab": _tab(path)}
        parts = {name: self._block("frame.html", name, values) for name in _FRAME}
        page, path_parameters = self._page(path)
        if page is not None and page.live:
            parameters = {**dict(parse_qsl(query)), **path_parameters}
            data = await self._library.read(lambda: page.data(self._library, parameters))
            parts |= {name: self._block(page.template, name, data) for name in page.live}
        return parts

    def notify(self, session: WebSession, notice: Notice) -> None:
        """Show a notice on the next page of a session."""
        self._notices[session.form_token] = notice

    def bare(self, template: str, status: int = 200, **data: Any) -> Response:
        """Return a page without the frame, for a browser that is not signed in."""
        return HTMLResponse(self._templates.get_template(template).render(data), status)

    def signin_page(self, _scope: Scope) -> Response:
        """Return the response to a request without a session."""
        return self.bare("signin.html", 401, state="new")

    async def failure_page(self, request: Request, status: int, problem: str) -> Response:
        """Return the page for a request that failed."""
        titles = {
            404: "Not found",
            403: "Not allowed",
            500: "Internal error",
            503: "Not available now",
            504: "Takes too long",
        }
        data = {"title": titles.get(status, "Not possible"), "problem": problem}
        try:
            return await self._page_response(request, "failed.html", data, status)
        except CatchmentError:
            # The frame needs the library, too.
            return PlainTextResponse(problem, status)

    def _handler(self, page: WebPage) -> Callable[[Request], Any]:
        async def show(request: Request) -> Response:
            parameters = {**request.query_params, **{name: str(value) for name, value in request.path_params.items()}}
            if page.needs_library and not await self._library.read(self._has_sources):
                return await self._page_response(request, "first.html", {})
            data = await self._library.read(lambda: page.data(self._library, parameters))
            part = parameters.get("part")
            if part is not None and part in self._templates.get_template(page.template).blocks:
                return HTMLResponse(self._block(page.template, part, data))
            return await self._page_response(request, page.template, data)

        return show

    async def _show_tabs(self, request: Request) -> Response:
        values = {"tab": _tab(view_address(request)), **await self._frame_values()}
        return HTMLResponse(self._block("frame.html", "tabs", values))

    async def _page_response(self, request: Request, template: str, data: Data, status: int = 200) -> Response:
        session: WebSession = request.scope["session"]
        frame = await self._frame_values()
        path = request.url.path
        address = quote(f"{path}?{request.url.query}" if request.url.query else path, safe="")
        values = {
            "tab": _tab(path),
            "live": f"/events?view={address}",
            "form_token": session.form_token,
            "notice": self._notices.pop(session.form_token, None),
        }
        html = self._templates.get_template(template).render({**frame, **values, **data})
        return HTMLResponse(html, status)

    def _block(self, template: str, name: str, data: Data) -> str:
        block_template = self._templates.get_template(template)
        return "".join(block_template.blocks[name](block_template.new_context(dict(data)))).strip()

    def _page(self, path: str) -> tuple[WebPage | None, Mapping[str, str]]:
        for pattern, page in self._pages:
            if match := pattern.match(path):
                return page, match.groupdict()
        return None, {}

    def _has_sources(self) -> bool:
        try:
            return bool(self._library.ledger.sources.all())
        except NotFound:
            return False

    def _read_stamp(self) -> object:
        try:
            ledger = self._library.ledger
            # The start and the end of a sync add no row to the history.
            latest = ledger.history.latest(), ledger.syncs.moment()
        except (NotFound, LedgerError):
            latest = None
        run = self._library.home.run
        times = [_modified_at(run, name) for name in _REPORTS]
        return latest, times, int(time.time() / _MINUTE), self._library.meaning_off, self._incidents()

    def _incidents(self) -> tuple[IncidentView, ...]:
        """Return the open incidents, also while the ledger cannot be read."""
        try:
            return opened(self._library.ledger, self._library.unsaved())
        except CatchmentError:
            return opened(None, self._library.unsaved())

    async def _frame_values(self) -> Data:
        """Return the values that each page shows: open problems, and the state of the system."""
        server = await self._readiness.server_responds()
        return await self._library.read(lambda: self._frame_data(server))

    def _frame_data(self, server: bool) -> Data:
        stamp = (self._read_stamp(), server)
        if self._frame is None or self._frame[0] != stamp:
            self._frame = stamp, self._read_frame(self._library.home, server)
        return self._frame[1]

    def _read_frame(self, home: Home, server: bool) -> Data:
        incidents = self._incidents()
        try:
            meaning, troubles = MeaningStatus.read(home, self._library.ledger), self._count(self._library)
        except CatchmentError:
            meaning, troubles = None, len(incidents)
        watch_report = WatchReport.read(home)
        return {
            "troubles": troubles,
            "incidents": incidents,
            "server": server,
            "worker": WorkerStatus.read(home),
            "watched": len(watch_report.sources) if watch_report else 0,
            "meaning": meaning,
        }


@cache
def _templates() -> Environment:
    """Return the templates, which take a tenth of a second to compile."""
    templates = Environment(
        loader=PackageLoader("web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters.update(template_filters.FILTERS)
    templates.globals["ui"] = templates.get_template("macros.html").module
    return templates


def _tab(path: str) -> str:
    name = path.partition("?")[0].split("/")[1]
    name = {"jobs": "syncs", "backfills": "syncs", "incidents": "trouble", "audit": "health"}.get(name, name)
    return name if name in ("trouble", "sources", "syncs", "health") else "library"


def _modified_at(folder: Path, name: str) -> float:
    try:
        return (folder / name).stat().st_mtime
    except FileNotFoundError:
        return 0.0
