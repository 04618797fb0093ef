"""Random histories of a folder tree: after a sync, the ledger matches the disk.

With the ledger in memory and the real one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catchment.ledger import IntakeCounts, Ledger, Source
from catchment.model import Checkpoint, Priority, Root
from connectors.contract.memory_ledger import MemoryLedger
from connectors.local_files import LocalFiles, LocalFilesSettings

pytestmark = pytest.mark.full

PLACES = ("a", "b", "c", "a/x", "a/y", "b/x", "c/a", "c/a/z")
places = st.sampled_from(PLACES)


def _clear(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


def _write(root: Path, place: str, content: str) -> None:
    """Write a file, in place if it exists, as some editors do."""
    path = root / place
    for above in path.relative_to(root).parents:
        if (root / above).is_file():
            (root / above).unlink()
    if path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def _keep_times(root: Path, place: str, content: str) -> None:
    path = root / place
    if path.is_file():
        before = path.stat()
        path.write_text(content[:1].ljust(before.st_size, "."))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _move(root: Path, place: str, other: str) -> None:
    old, new = root / place, root / other
    if old.exists() and new != old and old not in new.parents and new not in old.parents and new.parent.is_dir():
        _clear(new)
        old.rename(new)


def _set_its_time(root: Path, place: str, _: str) -> None:
    if (root / place).exists():
        os.utime(root / place)


def _exclude(root: Path, place: str, _: str) -> None:
    (root / ".catchmentignore").write_text(f"/{place}\n")


def _include_all(root: Path, place: str, _: str) -> None:
    (root / ".catchmentignore").unlink(missing_ok=True)


steps = st.one_of(
    st.tuples(st.just(_write), places, st.sampled_from(["one", "two", "333", ""])),
    st.tuples(st.just(_move), places, places),
    st.tuples(st.just(_keep_times), places, st.sampled_from(["p", "q"])),
    st.tuples(st.just(lambda root, place, _: _clear(root / place)), places, st.just("")),
    st.tuples(st.just(_set_its_time), places, st.just("")),
    st.tuples(st.sampled_from([_exclude, _include_all]), places, st.just("")),
)
Step = tuple[Callable[[Path, str, str], None], str, str]


def on_disk(root: Path) -> dict[str, bytes]:
    ignore = root / ".catchmentignore"
    out = ignore.read_text().strip().strip("/") if ignore.exists() else None
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {
        name: data
        for name, data in found.items()
        if not name.startswith(".") and name != out and not (out and name.startswith(f"{out}/"))
    }


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.lists(steps, max_size=6), st.one_of(st.none(), st.integers(0, 8))), min_size=1, max_size=5)
)
def test_random_history_ends_with_the_files_on_disk(rounds: list[tuple[list[Step], int | None]]) -> None:
    ledger = MemoryLedger()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        connector = LocalFiles(LocalFilesSettings(root=root))
        for todo, cut in rounds:
            for step, place, argument in todo:
                step(root, place, argument)
            ledger.sync(connector, cut=cut, fetch=cut is None)
            if cut is None:
                assert ledger.documents() == on_disk(root)
                assert ledger.sync(connector).item_changes == []
        ledger.sync(connector)
        assert ledger.documents() == on_disk(root)


def _list(ledger: Ledger, source: Source, connector: LocalFiles, cut: int | None = None) -> IntakeCounts | None:
    """List into the real ledger; return the last counts, or None if the listing was cut short."""
    sync = ledger.syncs.begin(source.id, run=None, owner="test", code_version="0", alive=lambda owner: False)
    known, pending, counts = ledger.intake.known(source.id), [], []
    for change in islice(connector.changes(known), cut):
        match change:
            case Root(identities=identities):
                assert not ledger.sources.changed_roots(sync.id, identities)
            case Checkpoint(marks=marks):
                counts.append(ledger.intake.record(sync.id, pending, marks))
                pending = []
            case _:
                pending.append(change)
    if cut is not None:
        ledger.syncs.end(sync.id, "failed", {})
        return None
    assert ledger.intake.settle(sync.id).held == 0
    ledger.syncs.end(sync.id, "completed", {})
    return counts[-1]


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.lists(steps, max_size=6), st.one_of(st.none(), st.integers(0, 8))), min_size=1, max_size=4)
)
def test_random_history_in_the_real_ledger(
    rounds: list[tuple[list[Step], int | None]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "root"
        root.mkdir()
        ledger = Ledger.open(f"sqlite:///{name}/ledger.db")
        source = ledger.sources.put("files", "local_files", Priority.NORMAL)
        connector = LocalFiles(LocalFilesSettings(root=root))
        for todo, cut in rounds:
            for step, place, argument in todo:
                step(root, place, argument)
            _list(ledger, source, connector, cut)
        _list(ledger, source, connector)
        again = _list(ledger, source, connector)
        assert again is not None
        assert (again.new, again.changed, again.moved, again.missing) == (0, 0, 0, 0)
        known = ledger.intake.known(source.id)
        found = {n: k for container in known.containers() for n, k in known.within(container).items()}
        assert {n for n, k in found.items() if not k.version.endswith("+excluded")} == set(on_disk(root))
        assert ledger.check() == []
        ledger.close()
