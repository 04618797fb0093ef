"""Finds the run that caused the loss of a runner. Pure: the steps of the runs are passed in.

A run is a possible cause if it was in a step at the last heartbeat, or if its steps are unknown; without one, every run is.
A single possible cause is blamed. Several are suspects: none is blamed, and the worker executes them one at a time, so that
the next loss names one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

HELD_AFTER = 2
"""Restarts of the runner, without a completed sync in between, after which the source that caused them is held."""


@dataclass(frozen=True, slots=True)
class BlameDecision:
    """The run that caused a loss (None if no run is blamed), the reason, and whether its source is held from now on."""

    culprit: UUID | None
    reason: str
    is_held: bool = False


class Blame:
    """The suspects, and the number of restarts that each source caused. By source name, or run name for other flows."""

    def __init__(self) -> None:
        self._suspects: set[str] = set()
        self._restarts: Counter[str] = Counter()

    def is_suspect(self, name: str) -> bool:
        """Whether the source may have caused the latest loss; suspects run one at a time."""
        return name in self._suspects

    def absolve(self, name: str) -> None:
        """Clear the suspicion against a source, because one of its runs completed."""
        self._suspects.discard(name)
        del self._restarts[name]

    def judge(self, cause: str, names: Mapping[UUID, str], steps: Mapping[UUID, str]) -> BlameDecision:
        """Blame one of the runs that a runner executed when it was lost. `cause` completes "the runner …"."""
        possible = [run for run in names if steps.get(run, "unknown")] or list(names)
        possible = [run for run in possible if names[run] in self._suspects] or possible
        if len(possible) > 1:
            self._suspects = {names[run] for run in possible}
            listed = ", ".join(sorted(self._suspects))
            return BlameDecision(
                None, f"the runner {cause}; the cause is one of {listed}, which continue one at a time"
            )
        (culprit,) = possible
        name = names[culprit]
        self._suspects.clear()
        self._restarts[name] += 1
        step = steps.get(culprit)
        reason = f"the runner {cause} while {name} {f'was in the step {step}' if step else 'was executed'}"
        if self._restarts[name] < HELD_AFTER:
            return BlameDecision(culprit, reason)
        return BlameDecision(culprit, f"{reason}, as it did before", is_held=True)
