"""The checks after a trial: the ordinary work of the system, then every promise that two acts beside each other could break."""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path

import sinks
from catchment.audit import chain, verify
from catchment.audit.signing import public_key
from catchment.content.parsing import CODE
from catchment.errors import NoConsent, NotFound
from catchment.ledger import BackfillState, Ledger, SinkState
from catchment.ledger.db.job_states import UNFINISHED
from catchment.ledger.items.matching import BACKFILL_CANCELLED
from catchment.model import JobState
from catchment.runtime import atomic_files
from catchment.settings import Policy
from catchment.sync import supply
from catchment.sync.prove import Flaw, prove
from console import session
from tests.faults.desk import SOURCE, all_is_well, same
from tests.pairs import acts
from tests.pairs.office import OTHER, POLICY, SINK, Office, Texts, expected, undone_paths

_SIGNING = ("sign", "rotate", "export")
"""Acts that add a checkpoint."""
_OTHERS = 3


def still_sound(office: Office) -> None:
    """Check the invariants right after the acts, before anything is repeated."""
    with closing(Ledger.inspect(office.home.database_url)) as ledger:
        same(ledger.check(deep=True), [])


class Checks:
    """The checks of an office in which acts of these names have been completed."""

    def __init__(self, office: Office, names: Collection[str]) -> None:
        self._office = office
        self._names = frozenset(names)
        self._contents = office.contents
        self._aside = self._undone()

    def all(self) -> None:
        """Let the system do its ordinary work, and check everything."""
        with session.writing() as ledger:
            revoked = acts.is_revoked(ledger)
        if "restore" not in self._names:
            same(revoked, "revoke" in self._names)
        self._work(revoked=revoked)
        wanted = expected(self._contents, self._aside, revoked=revoked)
        for folder in (self._office.home.audit, self._office.copies):
            # The next writer in the folder removes temporary files.
            atomic_files.unfinished(folder / "any")
        all_is_well(self._office, wanted, frozenset())
        with session.reading() as ledger:
            self._library(ledger, revoked=revoked)
            self._backfill(ledger)
            self._sink(ledger, wanted)
            self._audit(ledger)

    def _undone(self) -> frozenset[str]:
        """Return the paths that must be as before the undone sync.

        An undo skips paths that a backfill has read again since, and reports them. A restore discards the undone sync.
        """
        if "undo" not in self._names or "restore" in self._names:
            return frozenset()
        left = frozenset(self._office.noted("left") or ())
        undone = undone_paths(self._contents)
        if self._office.noted("backfill") is None and self._office.noted("cancelled") is None:
            same(sorted(undone & left), [])
        return undone - left

    def _work(self, *, revoked: bool) -> None:
        """Run the due work: the recovery of dead processes, backfills, a sync of each source, a delivery and the signing."""
        office = self._office
        with session.writing() as ledger:
            # As the recovery rounds of the worker do.
            ledger.syncs.close_dead(ledger.alive)
        if office.noted("backfill") is not None and not revoked:
            with session.reading() as ledger, suppress(NotFound):
                while ledger.backfills.get(office.backfill).is_running:
                    office.replay()
        try:
            office.sync(POLICY)
        except NoConsent:
            assert revoked
        else:
            assert not revoked
        office.sync_others()
        acts.deliver(office)
        acts.sign(office)

    def _library(self, ledger: Ledger, *, revoked: bool) -> None:
        office, source = self._office, ledger.sources.get(SOURCE)
        same(len(list(ledger.library.names(ledger.sources.get(OTHER).id))), _OTHERS)
        if revoked:
            same({table: n for table, n in ledger.purging.left(source.id, lambda _: True, whole=True).items() if n}, {})
            return
        proven = prove(office.home, ledger, source, office.connector, Policy())
        same([one for one in proven.findings if one.item not in self._aside or one.flaw is not Flaw.STALE], [])
        same(proven.index, ())
        stopped = {
            row.item for row in ledger.queue.jobs(limit=10_000) if row.current and row.state == JobState.CANCELLED
        }
        deleted = {row.item for row in ledger.queue.jobs(limit=10_000)} - {
            one.locator for one in ledger.proof.items(source.id)
        }
        same(sorted(stopped - self._aside - deleted), [])

    def _backfill(self, ledger: Ledger) -> None:
        if self._office.noted("backfill") is None:
            return
        try:
            found = ledger.backfills.get(self._office.backfill)
        except NotFound:
            assert "restore" in self._names
            return
        same({state: n for state, n in found.jobs.items() if n and state in UNFINISHED}, {})
        if acts.is_revoked(ledger):
            return
        ends = {BackfillState.DONE, BackfillState.CANCELLED} if "cancel" in self._names else {BackfillState.DONE}
        assert found.state in ends, found
        if found.state is BackfillState.DONE and "fetch" not in self._names:
            self._read_again(ledger)

    def _read_again(self, ledger: Ledger) -> None:
        """Check that the present code has read every document, except where an undo or a cancellation has prevented it."""
        given_up = {
            row.item
            for row in ledger.queue.jobs(limit=10_000)
            if "cancel" in self._names and row.backfill == self._office.backfill and row.reason == BACKFILL_CANCELLED
        }
        there = {one.locator: one.id for one in ledger.proof.items(ledger.sources.get(SOURCE).id)}
        read_by = ledger.library.normalizers(list(there.values()))
        older = [
            path
            for path, item in there.items()
            if path not in self._aside | given_up and not read_by[item].startswith(f"{CODE} ")
        ]
        same(older, [])

    def _sink(self, ledger: Ledger, wanted: Texts) -> None:
        sink = ledger.outbox.get(SINK)
        same((sink.state, sink.waiting, sink.error, sink.compared), (SinkState.ACTIVE, 0, None, None))
        with sinks.opened(sink.kind, sink.place) as place:
            found = supply.differences(ledger, place)
        same((found.missing, found.outdated, found.surplus), ((), (), ()))
        sent = [file.read_text(encoding="utf-8") for file in (self._office.copies / SOURCE).rglob("*.md")]
        same(sorted(text.rstrip().rpartition("\n")[2] for text in sent), sorted(wanted.values()))

    def _audit(self, ledger: Ledger) -> None:
        office = self._office
        same(chain.verify(office.home, ledger).problems, ())
        lines = office.home.checkpoints.read_text(encoding="utf-8").splitlines()
        # One before the acts, and one of the signing after them. A backup has the checkpoints of its history.
        least = 2 + sum(name in _SIGNING and "restore" not in self._names for name in self._names)
        assert len(lines) >= least, f"{len(lines)} checkpoints, at least {least} were signed"
        keys = [json.loads(line)["key"] for line in lines]
        same(keys[-1], public_key(office.home).key)
        same(keys[0] != keys[-1], "rotate" in self._names)
        for file in office.aside.glob("*.tar"):
            assert _verified_key(file) in keys


def _verified_key(bundle: Path) -> str:
    """Verify a bundle as its receiver does. Return the key that signed it."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(bundle) as files:
        for entry in files:
            content = files.extractfile(entry)
            assert content is not None
            (Path(folder) / entry.name).write_bytes(content.read())
        return verify.bundle(Path(folder)).key
