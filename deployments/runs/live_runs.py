"""Which runs live, and how each of them ended: the one place that decides both.

A run lives from the moment when the worker takes it until the runner reports its end, or is lost. Every other run of the pool
that the server counts as active is dead: recovery sets its state, and the rounds release its jobs in the ledger.

If a runner is lost, one of its runs may be the cause: a run that was in a step at the last heartbeat, or a run with unknown
steps; without such a run, every run. A single possible cause is blamed. Several are suspects: none is blamed, and the worker
executes them one at a time, so that the next loss names one of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import Scheduled

from catchment.errors import CatchmentError
from tasks.run_states import ACTIVE, AWAITING_RETRY, CANCELLED, CRASHED, INTERRUPTED, QUARANTINED, RunState

HELD_AFTER = 2
"""Restarts of the runner, without a completed sync in between, after which the source that caused them is held."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Loss:
    """The exit of a runner that executed runs. `cause` completes "the runner …"; `steps` as in its last `Heartbeat`.

    `is_explained`: it was killed because of an earlier run, so none of these is the cause.
    """

    runner: str
    cause: str
    runs: tuple[UUID, ...]
    steps: Mapping[UUID, str]
    is_explained: bool = False


RunEnd = str | Loss
"""The end of a run: the problem that its runner reported (empty: the flow set its own final state), or the runner's loss."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, as its worker saw it. `problem` is empty if the flow set its own final state.

    `state`: the state of a run with a problem. `may_restart`: a run that had not started is scheduled again.
    """

    problem: str = ""
    remedy: str = "the next sync resumes"
    state: RunState = CRASHED
    was_cancelled: bool = False
    may_restart: bool = False

    def state_for(self, run: FlowRun) -> State[Any] | None:
        """Return the state that the run should have; None if its own is right."""
        own = run.state
        if own is None:
            return None
        was_cancelled = self.was_cancelled or own.type is StateType.CANCELLING
        # The engine calls a cancelled task a crash, without the reason.
        is_unexplained = own.type is StateType.CRASHED and (bool(self.problem) or was_cancelled)
        if not (own.type in ACTIVE or own.name == AWAITING_RETRY.name or is_unexplained):
            return None
        if was_cancelled:
            return CANCELLED.because(f"Cancelled: {self.problem}" if self.problem else CANCELLED.name)
        if own.type is StateType.PENDING and run.run_count == 0 and self.may_restart:
            return Scheduled(message="Start interrupted; scheduled again")
        problem = self.problem or "the run ended without a result"
        return self.state.because(f"{problem[0].upper()}{problem[1:]}; {self.remedy}")


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
            suspects = {names[run] for run in possible}
            # The others may be suspects since the loss of another runner.
            self._suspects = suspects if suspects <= self._suspects else self._suspects | suspects
            listed = ", ".join(sorted(suspects))
            return BlameDecision(
                None, f"the runner {cause}; the cause is one of {listed}, which continue one at a time"
            )
        (culprit,) = possible
        name = names[culprit]
        if name in self._suspects:
            self._suspects.clear()
        self._restarts[name] += 1
        step = steps.get(culprit)
        reason = f"the runner {cause} while {name} {f'was in the step {step}' if step else 'was executed'}"
        if self._restarts[name] < HELD_AFTER:
            return BlameDecision(culprit, reason)
        return BlameDecision(culprit, f"{reason}, as it did before", is_held=True)


@dataclass(slots=True)
class _LiveRun:
    name: str
    end: asyncio.Future[RunEnd]
    was_cancelled: bool = False


@dataclass(eq=False)
class LiveRuns:
    """The live runs of one worker. Call its methods on the worker's event loop.

    `starting`: the runs that the worker has taken and not yet handed to the runner. `runners`: the process identities of the
    runners, by package. `give_back(runner, culprit, hold_because)` releases the jobs of a lost runner, and may wait.
    """

    starting: Callable[[], Set[UUID]]
    runners: Callable[[], Mapping[str, str]]
    give_back: Callable[[str, str | None, str | None], None]
    warn: Callable[[str], None]
    _runs: dict[UUID, _LiveRun] = field(default_factory=dict)
    blame: Blame = field(default_factory=Blame)
    _judgements: WeakKeyDictionary[Loss, asyncio.Task[BlameDecision]] = field(default_factory=WeakKeyDictionary)

    def ids(self) -> Set[UUID]:
        """The live runs: the starting runs, and the runs that the runner executes."""
        return self.starting() | self._runs.keys()

    @property
    def executed(self) -> Set[UUID]:
        """The runs that the runner executes, except runs with a reported end."""
        return {run for run, live in self._runs.items() if not live.end.done()}

    def has_ended(self, owner: str, run: str | None) -> bool:
        """Whether a sync in the ledger belongs to a runner but is not executed by it. Thread-safe."""
        return owner in self.runners().values() and run is not None and UUID(run) not in self._runs

    @contextmanager
    def executing(self, run: UUID, name: str, end: asyncio.Future[RunEnd]) -> Iterator[None]:
        """Count a run as executed meanwhile. `name`: its source, or its own name if it syncs none."""
        self._runs[run] = _LiveRun(name, end)
        try:
            yield
        finally:
            del self._runs[run]

    def end_of(self, run: UUID) -> asyncio.Future[RunEnd] | None:
        """The end of an executed run; None for other runs."""
        return self._runs[run].end if run in self._runs else None

    def cancel(self, run: UUID) -> bool:
        """Note that a run was cancelled. Returns False if it is not executed, or was cancelled before."""
        if run not in self._runs or self._runs[run].was_cancelled:
            return False
        self._runs[run].was_cancelled = True
        return True

    def was_cancelled(self, run: UUID) -> bool:
        """Whether an executed run was cancelled."""
        return run in self._runs and self._runs[run].was_cancelled

    def completed(self, run: UUID) -> None:
        """Clear the suspicion against the source of an executed run."""
        self.blame.absolve(self._runs[run].name)

    async def ending(self, run: UUID, end: RunEnd) -> Ending:
        """Return how an executed run ended. After a loss of the runner, none of its runs has an ending before the judgement."""
        if isinstance(end, str):
            problem, was_cancelled = f"the run {end}" if end else "", self._runs[run].was_cancelled
            return Ending(problem, was_cancelled=was_cancelled)
        if end not in self._judgements:
            self._judgements[end] = asyncio.create_task(self._judge(end))
        verdict = await asyncio.shield(self._judgements[end])
        was_cancelled = self._runs[run].was_cancelled
        if run != verdict.culprit:
            return Ending(verdict.reason, state=INTERRUPTED, was_cancelled=was_cancelled, may_restart=True)
        if verdict.is_held:
            remedy = f"held until: catchment sources resume {self._runs[run].name}"
            return Ending(verdict.reason, remedy, QUARANTINED, was_cancelled)
        return Ending(verdict.reason, was_cancelled=was_cancelled)

    async def _judge(self, loss: Loss) -> BlameDecision:
        """Blame a run for the loss of its runner, once for all its runs."""
        names = {run: self._runs[run].name for run in loss.runs}
        if loss.is_explained:
            verdict = BlameDecision(None, f"the runner {loss.cause}")
        else:
            verdict = self.blame.judge(loss.cause, names, loss.steps)
        culprit = names[verdict.culprit] if verdict.culprit is not None else None
        self.warn(f"{verdict.reason}; {len(names)} runs were interrupted")
        hold_because = verdict.reason if verdict.is_held else None
        try:
            await asyncio.to_thread(self.give_back, loss.runner, culprit, hold_because)
        except CatchmentError as error:
            self.warn(f"The jobs of the runner could not be released: {error}")
            return replace(verdict, is_held=False)
        return verdict
