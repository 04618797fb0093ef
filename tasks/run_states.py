"""The table of states of a run: Prefect type, name, meaning, and the modules that set a state or read it by its name.

Here and not in `deployments/runs`, because flows and tasks set states, and must not import deployments. docs/architecture.md
shows the table. Imports no Prefect, so that commands can read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

FINAL = ("COMPLETED", "FAILED", "CANCELLED", "CRASHED")
"""Types of the states in which a run has ended."""
ACTIVE = ("PENDING", "RUNNING", "CANCELLING")
"""Types of the states in which the server believes that a process executes the run."""

UNREPORTED = "could not report its state, because the Prefect server did not respond"
"""The problem of a run whose state the server refused, for example on a full disk."""


@dataclass(frozen=True, slots=True)
class RunState:
    """One state. `set_by` and `read_by` are modules of ours, or names for parts of Prefect."""

    type: str
    name: str
    meaning: str
    set_by: tuple[str, ...]
    read_by: tuple[str, ...] = ()

    def because(self, message: str | None) -> State[Any]:
        """Return the state for Prefect, with its message."""
        from prefect.client.schemas.objects import State, StateType

        return State(type=StateType(self.type), name=self.name, message=message)


AWAITING_SLOT = RunState(
    "SCHEDULED",
    "AwaitingConcurrencySlot",
    "waits for another run of its source",
    ("server",),
    (
        "console/sources/syncs.py",
        "deployments/runs/occupancy.py",
        "deployments/worker/notifications.py",
        "tasks/coalesce.py",
    ),
)
AWAITING_RETRY = RunState(
    "SCHEDULED",
    "AwaitingRetry",
    "waits in its process for the next attempt (flows of others only)",
    ("flow engine",),
    (
        "deployments/health/leftovers.py",
        "deployments/runs/live_runs.py",
        "deployments/runs/recovery.py",
        "deployments/worker/notifications.py",
    ),
)
COMPLETED = RunState(
    "COMPLETED",
    "Completed",
    "did its work; its source is under no suspicion",
    ("flow engine", "tasks/deliver.py", "tasks/embed.py", "tasks/sync_tasks.py", "deployments/runs/recovery.py"),
    ("deployments/worker/worker.py",),
)
SKIPPED = RunState(
    "COMPLETED",
    "Skipped",
    "did nothing: the source is paused, held or throttled, consent is missing, there is no model or no sink",
    ("flows/sync.py", "tasks/coalesce.py", "tasks/deliver.py", "tasks/embed.py"),
    ("console/sources/syncs.py", "deployments/worker/worker.py"),
)
WAITING = RunState(
    "COMPLETED",
    "Waiting",
    "stopped at a rate limit of the host; another run continues",
    ("flows/sync.py", "tasks/redacted_errors.py"),
)
COALESCED = RunState(
    "COMPLETED",
    "Coalesced",
    "another run does its work; the message ends with the ID of that run",
    ("tasks/coalesce.py",),
    ("deployments/runs/runs.py", "deployments/worker/worker.py"),
)
FAILED = RunState(
    "FAILED",
    "Failed",
    "could not read its source or write to its sink, was requested with invalid parameters, or hit a defect",
    (
        "flow engine",
        "flows/own_failures.py",
        "flows/sync.py",
        "tasks/deliver.py",
        "tasks/embed.py",
        "tasks/redacted_errors.py",
    ),
    ("tasks/sync_tasks.py",),
)
REFUSED = RunState(
    "FAILED", "Refused", "has the settings of another source", ("flows/sync.py",), ("deployments/worker/worker.py",)
)
QUARANTINED = RunState(
    "FAILED",
    "Quarantined",
    "its source is held from now on; of an item: its attempts are used up",
    ("flows/sync.py", "tasks/sync_tasks.py", "deployments/runs/live_runs.py"),
)
RETRYING_LATER = RunState(
    "COMPLETED", "Retrying later", "of an item: a later sync retries it", ("tasks/sync_tasks.py",)
)
CANCELLED = RunState(
    "CANCELLED",
    "Cancelled",
    "was stopped by the user, or with its worker",
    (
        "flows/sync.py",
        "tasks/deliver.py",
        "tasks/embed.py",
        "tasks/redacted_errors.py",
        "deployments/runs/live_runs.py",
        "deployments/runs/recovery.py",
    ),
)
CRASHED = RunState(
    "CRASHED",
    "Crashed",
    "Catchment itself failed, or the run caused the loss of its runner; resumed, ever later",
    (
        "flow engine",
        "flows/embed.py",
        "flows/own_failures.py",
        "deployments/runs/live_runs.py",
        "deployments/runs/recovery.py",
    ),
)
INTERRUPTED = RunState(
    "CRASHED",
    "Interrupted",
    "was lost with its runner through no fault of its source; resumed at once",
    ("deployments/runs/live_runs.py", "deployments/runs/rounds.py"),
    ("deployments/runs/recovery.py",),
)
