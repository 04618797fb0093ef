"""The rows that Prefect's server stores for a run: fewer than it makes, but all that the pages and our programs show.

Each stored event takes 8 KB of the database: a row for each of its resources, and nine indexes. Automations and open streams
receive all events, because they do not read the table.
"""

from __future__ import annotations

from typing import Any

_UNSTORED = (
    "prefect.task-run.",
    "prefect.artifact",
    "prefect.flow-run.Scheduled",
    "prefect.flow-run.Pending",
)
"""Beginnings of the names of events that are not stored: the states and artifacts of a run are rows of their own."""


def store_less() -> None:
    """Store no routine events, and no empty fields of a state's details, which would be four fifths of a state."""
    from prefect.server.events.services import event_persister
    from prefect.server.schemas.states import StateDetails
    from prefect.server.utilities.database import Pydantic

    write: Any = vars(event_persister)["write_events"]
    bind: Any = Pydantic.process_bind_param

    async def write_some(session: Any, events: list[Any]) -> None:
        await write(session, [event for event in events if is_stored(event)])

    def bind_fields(self: Any, value: Any, dialect: Any) -> Any:
        row = bind(self, value, dialect)
        if self._pydantic_type is StateDetails and row is not None:
            return {name: content for name, content in row.items() if content is not None}
        return row

    vars(event_persister)["write_events"] = write_some
    Pydantic.process_bind_param = bind_fields  # type: ignore[method-assign]


def is_stored(event: Any) -> bool:
    """Whether an event is stored. The states of subflows are not: their run's graph shows them."""
    is_of_subflow = event.event.startswith("prefect.flow-run.") and any(
        resource.role == "task-run" for resource in event.related
    )
    return not event.event.startswith(_UNSTORED) and not is_of_subflow
