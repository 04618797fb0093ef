"""Which of Prefect's events are stored: those that a person looks for, and all of Catchment."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from deployments.server.stored_rows import is_stored


@pytest.mark.parametrize(
    ("event", "roles", "stored"),
    [
        ("catchment.sync.completed", ("flow-run", "task-run"), True),
        ("prefect.flow-run.Running", ("flow", "deployment"), True),
        ("prefect.flow-run.Quarantined", ("flow", "deployment"), True),
        ("prefect.flow-run.Pending", ("flow", "deployment"), False),
        ("prefect.flow-run.Scheduled", ("flow", "deployment"), False),
        ("prefect.flow-run.Completed", ("flow", "task-run"), False),
        ("prefect.task-run.Completed", ("flow-run",), False),
        ("prefect.artifact-collection.updated", (), False),
        ("prefect.deployment.created", (), True),
    ],
)
def test_only_routine_events_are_not_stored(event: str, roles: tuple[str, ...], stored: bool) -> None:
    related = [SimpleNamespace(role=role) for role in roles]
    assert is_stored(SimpleNamespace(event=event, related=related)) is stored
