"""Commands that cannot write their files print one line with the remedy, leave no partial file, and work the next time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.disk import Fault
from tests.faults.test_disks import _unfinished, _worth_trying
from tests.faults.workshop import Workshop

pytestmark = pytest.mark.faults

_SOME = 8

Command = Callable[[Path], list[str]]
COMMANDS: dict[str, Command] = {
    "a plan": lambda kept: ["plan", "papers", "--out", f"{kept}/plan.json"],
    "a setting": lambda _: ["sources", "set", "papers", "exclude=[*.tmp]"],
    "a pause": lambda _: ["sources", "pause", "papers"],
    "a new source": lambda kept: ["add", "local_files", f"{kept}", "--name", "more"],
    "no model": lambda _: ["model", "off"],
    "a rule": lambda _: ["throttle", "set", "papers", "--per-hour", "10"],
    "an export": lambda kept: ["export", f"{kept}/library.jsonl"],
    "a backup": lambda kept: ["backup", f"{kept}/copy.db"],
    "a vacuum": lambda _: ["ledger", "vacuum"],
    "an undo": lambda _: ["undo", "1"],
    "a repair": lambda _: ["prove", "papers", "--repair"],
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A workshop with a home that has one source, which has changed since its sync."""
    with closing(Workshop(tmp_path_factory.mktemp("commands"))) as made:
        made.papers.mkdir()
        for n in range(6):
            (made.papers / f"{n}.md").write_text(f"# Paper {n}\n\nThe text of paper {n}.\n")
        (made.place / "kept").mkdir(parents=True)
        assert made.command("add", "local_files", str(made.papers), "--name", "papers").code == 0
        made.well("sync")
        (made.papers / "0.md").write_text("# A changed paper\n")
        made.save(made.place.parent / "before")
        yield made


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_command_on_a_bad_disk_says_why_and_works_again(
    shop: Workshop, command: str, every: bool, times: int, request: pytest.FixtureRequest
) -> None:
    before, words = shop.place.parent / "before", COMMANDS[command](shop.place / "kept")
    shop.begin_from(before)
    usual = shop.command(*words)
    assert usual.code in (0, 1), usual
    notes = shop.disk.notes
    if times == 1:
        random.seed(request.node.name)
    faults = _worth_trying(notes, times)
    for fault in faults if every else random.sample(faults, min(len(faults), _SOME)):
        shop.begin_from(before)
        came = shop.command(*words, fault=fault)
        about = (fault, notes[fault.at - 1], came)
        if came.code != usual.code:
            errors = [line for line in came.err.splitlines() if line.startswith("catchment: ")]
            assert len(errors) == 1 and "; " in errors[0] and "unexpected" not in errors[0], about
            assert shop.command(*words).code == usual.code, about
        assert _unfinished(shop.place) == [], about
        (looked,) = shop.do("look")
        assert not looked.error and looked.done["broken"] == [], (about, looked)


def test_new_file_whose_folder_cannot_be_flushed_is_removed(shop: Workshop) -> None:
    target = shop.place / "kept" / "library.jsonl"
    shop.begin_from(shop.place.parent / "before")
    assert shop.command("export", str(target)).code == 0
    notes = shop.disk.notes
    assert (notes[-1].what, notes[-1].file) == ("flush", "kept")
    shop.begin_from(shop.place.parent / "before")
    came = shop.command("export", str(target), fault=Fault.broken_once(len(notes)))
    assert (came.code, target.exists()) == (10, False), came
    assert shop.command("export", str(target)).code == 0
