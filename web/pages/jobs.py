"""Jobs by state and source, and one with its attempts and its history."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from catchment.errors import BadInput
from catchment.ledger import JobFilter
from catchment.model import JobState
from catchment.views.work import jobs
from catchment.views.work.jobs import JobsView, JobView
from deployments.actions.desk import Desk
from web.site import Data, WebPage
from web.warm_library import WarmLibrary

_FILTERS = ("source", "kind", "reason")


def pages(desk: Desk) -> tuple[WebPage, ...]:
    """Return the pages: all jobs, and one."""
    return (
        WebPage("/jobs", "jobs.html", _list, ("jobs",), shared=JobsView, query=("state", *_FILTERS, "after")),
        WebPage("/jobs/{number:number}", "job.html", partial(_job, desk), ("head", "job"), shared=JobView),
    )


def _list(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    source, kind, reason = (parameters.get(name) or None for name in _FILTERS)
    filters = {"source": source, "kind": kind, "reason": reason}
    state = _state(parameters.get("state", ""))
    view = jobs.jobs(library.ledger, JobFilter(source, state, kind, reason), after=parameters.get("after"))
    return {
        "view": view,
        "states": [job_state for job_state in JobState if view.totals.get(job_state)],
        "state": state,
        "filters": filters,
        "sources": [source.name for source in library.ledger.sources.all()],
        "query": {**filters, "state": state},
    }


def _state(name: str) -> JobState | None:
    if name and name not in list(JobState):
        raise BadInput(f"state: {name!r} is none; choose {', '.join(JobState)}")
    return JobState(name) if name else None


def _job(desk: Desk, library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    view = jobs.job(library.ledger, int(parameters["number"]))
    return {"view": view, "row": view.job, "address": desk.run_address(view.run) if view.run else None}
