"""The table of states of a run: Prefect type, name and meaning. The imports of a state say which modules set or read it.

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
"""The problem of a run if the server refused its state, for example on a full disk."""


@dataclass(frozen=True, slots=True)
class RunState:
    """One state."""

    type: str
    name: str
    meaning: str

    def because(self, message: str | None) -> State[Any]:
        """Return the state for Prefect, with its message."""
        from prefect.client.schemas.objects import State, StateType

        return State(type=StateType(self.type), name=self.name, message=message)


AWAITING_SLOT = RunState("SCHEDULED", "AwaitingConcurrencySlot", "waits for another run of its source")
AWAITING_RETRY = RunState(
    "SCHEDULED", "AwaitingRetry", "waits in its process for the next attempt (flows of others only)"
)
COMPLETED = RunState("COMPLETED", "Completed", "did its work; its source is under no suspicion")
SKIPPED = RunState(
    "COMPLETED",
    "Skipped",
    "did nothing, or ended early: the source is paused, held or throttled, or it has no consent, model or sink",
)
WAITING = RunState("COMPLETED", "Waiting", "stopped at a rate limit of the host; another run continues")
COALESCED = RunState("COMPLETED", "Coalesced", "another run does its work; the message ends with the ID of that run")
FAILED = RunState(
    "FAILED",
    "Failed",
    "could not read its source or write to its sink, was requested with invalid parameters, or hit a defect",
)
REFUSED = RunState("FAILED", "Refused", "may not run, for example because it has the settings of another source")
QUARANTINED = RunState("FAILED", "Quarantined", "its source is held from now on; of an item: no attempt is left")
RETRYING_LATER = RunState("COMPLETED", "Retrying later", "of an item: a later sync retries it")
CANCELLED = RunState("CANCELLED", "Cancelled", "was stopped by the user, or with its worker")
CRASHED = RunState(
    "CRASHED",
    "Crashed",
    "Catchment itself failed, its worker was killed, or it caused the loss of its runner; resumed, ever later",
)
INTERRUPTED = RunState(
    "CRASHED", "Interrupted", "was lost with its runner or host, and its source is not blamed; resumed at once"
)
