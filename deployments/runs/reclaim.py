"""Release the jobs of dead syncs in the ledger. Every function opens the ledger and may wait for it: call it in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from catchment.errors import CatchmentError, NotFound
from catchment.ledger import Ledger
from catchment.ledger.library.embeddings import OFF
from catchment.runtime.home import Home
from catchment.runtime.process import alive
from connectors import connector_class, kinds
from deployments.sources.sources_file import SourcesFile


def reclaim(home: Home, has_ended: Callable[[str, str | None], bool]) -> int:
    """Close the syncs that no process executes and release their jobs. Returns the number of jobs. Idempotent.

    A sync is lost if its process has exited, or if `has_ended(owner, run)`. Raises LedgerError.
    """
    attempts = _attempts(home)
    jobs = 0
    with _opened(home) as ledger:
        if ledger is None:
            return jobs
        for source in ledger.sources.all():
            last = ledger.syncs.last(source.id)
            if last is not None and last.outcome is None and alive(last.owner) and not has_ended(last.owner, last.run):
                continue
            # First, because closing a sync releases its jobs regardless of their attempts.
            most = attempts.get(source.name) or connector_class(source.kind).policy.retry.attempts
            recovered = ledger.queue.recover(source.id, alive, most)
            jobs += recovered.released + recovered.quarantined
        ledger.syncs.close_dead(alive, has_ended)
        return jobs


def give_back(home: Home, runner: str, culprit: str | None, hold_because: str | None) -> None:
    """Release the jobs of a lost runner without counting the attempt, except those of the source that caused the loss.

    `hold_because`: hold the culprit, for this reason. Raises LedgerError, NotFound if the culprit is not a source.
    """
    with _opened(home) as ledger:
        if ledger is None:
            return
        ledger.queue.give_back(runner, culprit)
        if culprit is not None and hold_because is not None:
            ledger.sources.hold(culprit, "worker", hold_because)


def may_lack_embeddings(home: Home) -> bool:
    """Return whether the library has passages and search by meaning is on. Only the model knows which ones it lacks."""
    with _opened(home) as ledger:
        return ledger is not None and ledger.embeddings.setting != OFF and ledger.embeddings.counts(None).total > 0


@contextmanager
def _opened(home: Home) -> Iterator[Ledger | None]:
    """Open the ledger; None if no source was ever synced."""
    try:
        ledger = Ledger.inspect(home)
    except NotFound:
        yield None
    else:
        with closing(ledger):
            yield ledger


def _attempts(home: Home) -> dict[str, int]:
    """Attempts allowed for a job, by source, from the source's policy; empty if the sources file is invalid."""
    try:
        entries = SourcesFile.load(home.sources_file).entries
    except CatchmentError:
        return {}
    policies = {kind: connector_class(kind).policy for kind in kinds()}
    return {entry.name: entry.settings.policy(policies[entry.kind]).retry.attempts for entry in entries}
