"""The client of the worker and of the runner: it does not request objects that this process has just read or set.

Prefect's engine reads each run that it has started, names it, and registers a flow for each subflow. A request costs the
server 4 to 20 ms.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import httpx
from prefect import Flow
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.responses import OrchestrationResult, SetStateStatus, StateAcceptDetails
from prefect.context import AsyncClientContext, FlowRunContext
from prefect.settings import get_current_settings
from prefect.states import Running

IDENTIFIER = "run:"
"""Begins the identifier of a run, which the worker reads to cancel it."""
_CURRENT_SECONDS = {"/flows/": float("inf"), "/flows/{id}": float("inf"), "/deployments/{id}": 1.0}
"""Age of a response that is still current, by its path. A flow never changes its name."""


class RememberingClient(PrefectClient):
    """A client for one process, which executes the runs that it begins and the subflows that it creates."""

    def __init__(self) -> None:
        settings = get_current_settings().api
        login = settings.auth_string
        super().__init__(str(settings.url), auth_string=login.get_secret_value() if login else None)
        self._responses: dict[str, tuple[float, httpx.Response]] = {}
        self._begun: dict[UUID, FlowRun] = {}

    def context(self) -> AsyncClientContext:
        """The context in which Prefect uses this client."""
        context = AsyncClientContext()
        context.client = self
        return context

    def begin(self, run: FlowRun, flow: Flow[Any, Any]) -> None:
        """Remember a run before its execution, until the engine reads it."""
        run.name = _name(flow, run.parameters) or run.name
        self._begun[run.id] = run

    async def request(
        self, method: Any, path: Any, params: Any = None, path_params: Any = None, **options: Any
    ) -> httpx.Response:
        """Send a request, unless its last response is current, or it names a run as it was created."""
        if path == "/flow_runs/{id}" and method == "PATCH" and (run := self._begun.get(path_params["id"])):
            if options["json"] == {"name": run.name}:
                return httpx.Response(httpx.codes.NO_CONTENT)
            # The engine's first change. The identifier is for cancellations.
            options["json"] |= {"name": run.name, "infrastructure_pid": f"{IDENTIFIER}{run.id}"}
        if path not in _CURRENT_SECONDS or method not in ("GET", "POST"):
            return await super().request(method, path, params, path_params, **options)
        key, now = f"{method} {path} {path_params} {options}", time.monotonic()
        if key not in self._responses or now - self._responses[key][0] > _CURRENT_SECONDS[path]:
            self._responses[key] = now, await super().request(method, path, params, path_params, **options)
        return self._responses[key][1]

    async def create_flow_run(self, flow: Any, **options: Any) -> FlowRun:  # type: ignore[override]
        """Create a run; that of a subflow with its name, and running, because it never waits for a slot."""
        if is_subflow := options.get("parent_task_run_id") is not None:
            options |= {"state": Running(), "name": _name(flow, options["parameters"])}
        try:
            run = await super().create_flow_run(flow, **options)
        except httpx.HTTPStatusError:
            # The flow may have been deleted. This run crashes, and the run that resumes it registers the flow again.
            self._responses.clear()
            raise
        if is_subflow:
            self._begun[run.id] = run
        return run

    async def set_flow_run_state(
        self, flow_run_id: UUID | str, state: State[Any], force: bool = False
    ) -> OrchestrationResult[Any]:
        """Propose a state, unless the run was created in it."""
        run = self._begun.get(UUID(str(flow_run_id)))
        if run and run.state and run.state.is_running() and state.is_running():
            return OrchestrationResult(state=run.state, status=SetStateStatus.ACCEPT, details=StateAcceptDetails())
        result = await super().set_flow_run_state(flow_run_id, state, force)
        if run and state.is_running() and result.status is SetStateStatus.ACCEPT:
            run.run_count += 1
        return result

    async def read_flow_run(self, flow_run_id: UUID) -> FlowRun:
        """Read a run, except at the engine's first look at it."""
        run = self._begun.pop(flow_run_id, None)
        return run if run and run.state and run.state.is_running() else await super().read_flow_run(flow_run_id)

    async def read_flow_runs(self, **filters: Any) -> list[FlowRun]:
        """Read runs. The engine looks for the subflows of an earlier attempt, which a first attempt does not have."""
        above, which = FlowRunContext.get(), filters.get("flow_run_filter")
        is_first = above and isinstance(above.flow_run, FlowRun) and above.flow_run.run_count == 1
        return [] if is_first and which and which.parent_task_run_id else await super().read_flow_runs(**filters)


def _name(flow: Flow[Any, Any], parameters: dict[str, Any]) -> str | None:
    """The name that a flow gives its run; None if that depends on more than the JSON of its parameters."""
    try:
        return flow.flow_run_name.format(**parameters) if isinstance(flow.flow_run_name, str) else None
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
