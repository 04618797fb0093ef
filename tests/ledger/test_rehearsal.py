"""Dry runs: a scratch ledger has the same view of a source as the real ledger, which stays unchanged, on either
database.
"""

from __future__ import annotations

from pathlib import Path

from catchment.errors import SkipReason
from catchment.ledger.admin.scratch import PlannedAction
from catchment.model import Skip, Tombstone, Upsert
from tests.ledger.world import World, note, notes


def test_dry_run_reports_each_item_and_leaves_the_ledger_unchanged(world: World, tmp_path: Path) -> None:
    world.ingest(*notes(4), note("back.md"))
    world.record(big := Skip(note("big.bin", "v1+too_large"), SkipReason.TOO_LARGE), folder="digest")
    world.lose("back.md")
    world.settle()
    scratch = world.ledger.scratch(world.source.id, tmp_path / "scratch.db")
    try:
        known = scratch.intake.known(world.source.id)
        assert (known.marks(), known.containers()) == ({"folder": "digest"}, {"n", ""})
        assert known.within("n") == world.ledger.intake.known(world.source.id).within("n")
        sync = scratch.syncs.begin(world.source.id, run=None, owner="w", code_version="1", alive=lambda _: False)
        seen = (note("n/1.md", "v2", "n1"), note("m.md", identity="n2"), note("new.md", size=7), note("back.md"))
        changes = [Tombstone("n/0.md"), Tombstone("n/2.md"), big, *map(Upsert, seen)]
        scratch.intake.record(sync.id, changes, {})
        scratch.intake.settle(sync.id)
        told = {step.item: (step.action, step.reads, step.was) for step in scratch.steps(sync.id)}
    finally:
        scratch.close()
    assert told == {
        "back.md": (PlannedAction.RETURN, False, None),
        "m.md": (PlannedAction.MOVE, False, "n/2.md"),
        "n/0.md": (PlannedAction.DELETE, False, None),
        "n/1.md": (PlannedAction.CHANGE, True, None),
        "new.md": (PlannedAction.ADD, True, None),
    }
    assert world.claim().jobs == ()
    assert sorted(world.found("says")) == [f"n/{n}.md" for n in range(4)]
    assert world.ledger.intake.find("new.md") == []
