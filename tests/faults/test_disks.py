"""A disk that fills up or fails at any write, flush or rename: stored data is kept, and the work completes afterwards."""

from __future__ import annotations

import itertools
import random
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from catchment.ledger.db import schema
from deployments.server.environment import POOL
from tests.faults.disk import Fault, Note
from tests.faults.versions import kept, told
from tests.faults.workshop import Workshop, texts_of

pytestmark = [pytest.mark.faults, pytest.mark.long]

_ALL_FROM = 10
"""The multiple of the ordinary number of faults that covers all of them."""
_OF_A_KIND = 3
_REMEDY = re.compile(r"; ")
_FAULTS: list[Callable[[int], Fault]] = [Fault.full, Fault.broken_once, Fault.broken]

_OTHER = {
    "entrypoint": "flows.local_files.sync_local_files",
    "tags": ["source", "local_files"],
    "parameters": {"name": "other", "settings": {"root": "/"}},
    "work_pool": {"name": POOL},
}


@dataclass(frozen=True, slots=True)
class Case:
    """A task and its initial state."""

    work: str
    state: str


_CASES = [
    Case("sync", "new"),
    Case("sync", "old"),
    Case("back_up", "old"),
    Case("restore", "backed up"),
    Case("vacuum", "backed up"),
    Case("purge", "backed up"),
]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: f"{case.work} {case.state}")
def test_disk_failure_at_any_operation_loses_no_data(
    shop: Workshop, states: dict[str, Path], case: Case, times: int
) -> None:
    shop.begin_from(states[case.state])
    before = shop.texts() if case.state != "new" else {}
    shop.well(case.work)
    notes = shop.disk.notes
    after = shop.texts()
    tried = _worth_trying(notes, times)
    struck = 0
    for fault in tried:
        shop.begin_from(states[case.state])
        (came,) = shop.do(case.work, fault=fault)
        about = (fault, notes[fault.at - 1], came)
        # The number of written pages depends on random numbers among the words, so the last operations may not occur.
        struck += bool(shop.disk.struck)
        if came.error:
            assert _REMEDY.search(came.message), about
            looked, again, finished = shop.do("look", case.work, "look")
            if case.state != "new" or looked.error != "NotFound":
                now = texts_of(looked)
                assert all(text in (before.get(item), after.get(item)) for item, text in now.items()), about
                assert before.keys() & after.keys() <= now.keys(), about
            assert not again.error, (about, again)
        else:
            (finished,) = shop.do("look")
        assert texts_of(finished) == after, about
        assert _unfinished(shop.place) == [], about
    assert struck > len(tried) / 2


def test_migration_is_atomic_when_any_disk_operation_fails(shop: Workshop, states: dict[str, Path], times: int) -> None:
    def begin() -> None:
        shop.begin_from(states["new"])
        shop.home.mkdir(mode=0o700, exist_ok=True)
        kept(schema.REVISION, shop.home)

    begin()
    address = f"sqlite:///{shop.home / 'ledger.db'}"
    before = told(address)
    assert shop.well("lead_forward") == []
    notes = shop.disk.notes
    copy = shop.home / f"ledger-{schema.REVISION}.backup.db"
    tried = _worth_trying(notes, times)[:: 1 if times > 1 else 3]
    struck = 0
    for fault in tried:
        begin()
        (came,) = shop.do("lead_forward", fault=fault)
        about = (fault, notes[fault.at - 1], came)
        struck += bool(shop.disk.struck)
        assert came.error in ("", "LedgerUnavailable", "HomeUnavailable"), about
        assert not came.error or _REMEDY.search(came.message), about
        assert told(address) == before, about
        if copy.exists():
            assert told(f"sqlite:///{copy}") == before, about
        assert shop.well("lead_forward") == [], about
        assert told(address) == before, about
        assert _unfinished(shop.place) == [], about
        assert {path.name for path in shop.home.iterdir()} - {"ledger.db-opening"} == {copy.name, "ledger.db"}, about
    assert struck > len(tried) / 2


def test_essential_files_are_replaced_atomically_despite_disk_failures(shop: Workshop, states: dict[str, Path]) -> None:
    _before_saving(shop, states)
    shop.well("save")
    for at in range(1, len(shop.disk.notes) + 1):
        for fault in _FAULTS:
            _before_saving(shop, states)
            (came,) = shop.do("save", fault=fault(at))
            about = (fault(at), came)
            assert shop.disk.struck, about
            assert came.error != "defect", about
            assert (shop.home / "secret").read_text() in ("the old secret", "the new secret"), about
            written, before = (shop.home / "sources.yaml").read_text(), shop.home / "sources.yaml.version-0"
            assert written.count("entrypoint:") in (1, 2), about
            assert before.exists() or "version" not in written, about
            assert not before.exists() or before.read_text().count("entrypoint:") == 1, about
            login = shop.home / "ui-login"
            assert not login.exists() or len(login.read_text()) == len("catchment:") + 33, about
            assert _unfinished(shop.place) == [], about
            if not came.error:
                assert (shop.home / "secret").read_text() == "the new secret"


def _before_saving(shop: Workshop, states: dict[str, Path]) -> None:
    shop.begin_from(states["old"])
    (shop.home / "secret").write_text("the old secret")
    (shop.home / "secret").chmod(0o600)
    entry = yaml.safe_dump([{"name": "other", **_OTHER}], indent=2)
    (shop.home / "sources.yaml").write_text(f"pull: []\n\ndeployments:\n{textwrap.indent(entry, '  ')}")


@pytest.mark.parametrize(
    ("work", "files"),
    [
        ("save", ["home/sources.yaml", "home/ui-login", "home/secret"]),
        ("back_up", ["kept/copy.db"]),
        ("restore", ["home/ledger.db"]),
    ],
)
def test_file_is_flushed_before_its_rename_and_the_rename_is_flushed(
    shop: Workshop, states: dict[str, Path], work: str, files: list[str]
) -> None:
    if work == "save":
        _before_saving(shop, states)
    else:
        shop.begin_from(states["backed up"])
    if work == "back_up":
        (shop.place / "kept" / "copy.db").unlink()
    shop.well(work)
    notes = shop.disk.notes
    for file in files:
        (at,) = [n for n, note in enumerate(notes) if note == Note("rename", file)]
        before, after = notes[at - 1], notes[at + 1]
        folder, _, name = file.rpartition("/")
        assert (before.what, before.file.startswith(f"{folder}/.{name}~")) == ("flush", True), notes
        assert after == Note("flush", folder), notes


def test_restore_flushes_the_replaced_ledger_before_replacing_it(shop: Workshop, states: dict[str, Path]) -> None:
    shop.begin_from(states["backed up"])
    shop.well("restore")
    notes = [(note.what, re.sub(r"replaced-[^/]+", "aside", note.file)) for note in shop.disk.notes]
    kept, placed = notes.index(("link", "home/aside/ledger.db")), notes.index(("rename", "home/ledger.db"))
    assert kept < notes.index(("flush", "home/aside")) < placed


def _unfinished(place: Path) -> list[str]:
    names = (path.name for path in place.rglob("*") if not path.parent.name.startswith("replaced-"))
    return [name for name in names if name.startswith(".") or name.endswith((".unfinished", ".new", "-journal"))]


def _worth_trying(notes: Sequence[Note], times: int) -> list[Fault]:
    """Select the operations that fail: the first, the last and some others per operation type and file; or all of them."""
    if times >= _ALL_FROM:
        return [fault(number) for number in range(1, len(notes) + 1) for fault in _FAULTS]
    kinds: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, note in enumerate(notes, 1):
        kinds[note.what, re.sub(r"\d{8}T\d{6}(-\d+)?", "NOW", note.file)].append(number)
    chosen: set[int] = set()
    for numbers in kinds.values():
        chosen |= {numbers[0], numbers[-1], *random.sample(numbers, min(len(numbers), (_OF_A_KIND - 2) * times))}
    return [fault(number) for number, fault in zip(sorted(chosen), itertools.cycle(_FAULTS), strict=False)]
