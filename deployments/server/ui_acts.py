"""Record actions in the Prefect UI in the history, with the actor `prefect`: run, cancel, switch off and on.

Only requests of browsers are recorded. Requests of programs such as Prefect's commands look like those of our own workers.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import closing
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import UUID

from catchment.errors import CatchmentError
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.runtime.process import IN_PREFECT

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_Message = MutableMapping[str, Any]
_ACT = re.compile(
    r"/api/(?P<what>deployments|flow_runs)/(?P<id>[0-9a-f-]{36})"
    r"(?:/(?:create_flow_run|pause_deployment|resume_deployment|set_state))?"
)
_OF_BROWSER = b"sec-fetch-mode"


def recorded(app: ASGIApp, record: Callable[[str, str], None]) -> ASGIApp:
    """Call `record` with the name of the source and the event, in a thread, after each act that succeeded."""
    pending: set[asyncio.Task[None]] = set()

    async def recording(
        scope: _Message, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
    ) -> None:
        act = _ACT.fullmatch(scope["path"]) if _is_change(scope) else None
        status = 0

        async def sending(message: _Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await app(scope, receive, send if act is None else sending)
        if act is not None and 200 <= status < 300:
            task = asyncio.create_task(_told(act, record))
            pending.add(task)
            task.add_done_callback(pending.discard)

    return recording


def note(source: str, event: str) -> None:
    """Add an act to the history of this process's home. Sources that are not in the ledger yet have none."""
    try:
        with closing(Ledger.inspect(Home.default())) as ledger:
            ledger.sources.note(source, event, IN_PREFECT, "")
    except CatchmentError as error:
        print(f"an act in the Prefect UI was not recorded: {error}", flush=True)  # noqa: T201 - the log of the server


def _is_change(scope: _Message) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] in ("POST", "PATCH")
        and any(name == _OF_BROWSER for name, _ in scope["headers"])
    )


async def _told(act: re.Match[str], record: Callable[[str, str], None]) -> None:
    source, event = await _meaning(act["what"], UUID(act["id"]), act.string.rpartition("/")[2])
    if source and event:
        await asyncio.to_thread(record, source, event)


async def _meaning(what: str, number: UUID, verb: str) -> tuple[str | None, str | None]:
    """Return the source and the event. Both are None if the action does not concern a source."""
    # Their decorator hides that these are coroutines.
    models: Any = import_module("prefect.server.models")
    from prefect.server.database import provide_database_interface

    event = "sync requested" if verb == "create_flow_run" else None
    async with provide_database_interface().session_context() as session:
        deployment_id: UUID | None = number
        if what == "flow_runs":
            run = await models.flow_runs.read_flow_run(session, number)
            deployment_id = run.deployment_id if run is not None else None
            if run is not None and run.state is not None and run.state.type in ("CANCELLING", "CANCELLED"):
                event = "cancel requested"
        deployment = deployment_id and await models.deployments.read_deployment(session, deployment_id)
        if not deployment or "source" not in deployment.tags:
            return None, None
        if what == "deployments" and event is None:
            event = "switched off" if deployment.paused else "switched on"
        return str(deployment.name), event
