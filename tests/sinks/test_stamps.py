"""Places and ledgers that were put back from a copy, emptied or exchanged: the next look and delivery make them right."""

from __future__ import annotations

import itertools
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

import sinks
from catchment.errors import Refused, SinkUnavailable
from catchment.ledger import Ledger, SinkRow, SinkState
from catchment.ledger.db.schema import sinks as sinks_table
from catchment.model import Tombstone, Upsert
from catchment.runtime.home import Home
from catchment.sync import supply as engine
from deployments.actions import sinks as actions
from deployments.actions.desk import Desk
from tests.faults.crashes import killing, listen, lived
from tests.ledger.world import Clock, World, note, notes
from tests.sinks.conftest import Place, supply
from tests.sinks.test_contract import equals
from tests.sinks.test_meanwhile import interrupted


def adopt(world: World, home: Path, name: str = "copy") -> None:
    engine.adopt(Home(home), world.ledger, name, sinks.opened, "operator:anna")


def look(world: World, tmp_path: Path, name: str = "copy") -> bool:
    """Look at the sink as the health check does, and return whether it has something to receive."""
    engine.look(Home(tmp_path / "home"), world.ledger, name, sinks.opened)
    return name in world.ledger.outbox.due()


def copied_ledger(world: World, folder: Path) -> Callable[[], None]:
    """Copy the files of the ledger by hand, and return a function that puts them back."""
    world.ledger.close()
    file = Path(world.url.removeprefix("sqlite:///"))
    folder.mkdir(parents=True)
    for each in file.parent.glob(f"{file.name}*"):
        shutil.copy2(each, folder)
    world.reopen()

    def put_back() -> None:
        world.ledger.close()
        for each in file.parent.glob(f"{file.name}*"):
            each.unlink()
        for each in folder.iterdir():
            shutil.copy2(each, file.parent)
        world.reopen()

    return put_back


def get_ahead(world: World) -> None:
    """Add, change, move and delete documents."""
    world.ingest(note("n/0.md", "v2", "n0"), *(note(f"n/ahead{n}.md") for n in range(3)))
    world.record(Tombstone("n/2.md"), Upsert(note("n/moved.md", "v1", "n2")))
    world.lose("n/1.md")
    world.settle()


def killed(world: World, tmp_path: Path, moment: str) -> bool:
    """Deliver in a process that is killed at a moment of the ledger. Return whether it was."""
    world.ledger.close()

    def deliver() -> None:
        listen(killing(moment, 1))
        with closing(Ledger.open(world.url, clock=world.clock, monotonic=world.clock.steady)) as ledger:
            supply(ledger)

    return lived(deliver, tmp_path / "note").code == -signal.SIGKILL


def restored(world: World, backup: Path) -> None:
    world.ledger.close()
    Ledger.restore(world.url, backup, [], [], lambda _copy, _files: None)
    world.reopen()
    world.sync = world.begin()


def test_old_copy_of_a_place_is_noticed_and_repaired(supplied: World, place: Place, tmp_path: Path) -> None:
    world = supplied
    world.ingest(*notes(6))
    supply(world.ledger)
    put_back = place.copied(tmp_path / "old")
    world.ingest(note("n/0.md", "v2", "n0"), note("n/new.md"))
    world.lose("n/1.md")
    world.settle()
    supply(world.ledger)
    assert not look(world, tmp_path)
    put_back()
    assert look(world, tmp_path), "before, it was up to date"
    assert world.ledger.outbox.get("copy").waiting
    counts = supply(world.ledger)
    assert (counts.sent, counts.removed) == (2, 1)
    assert equals(world, place)
    assert not look(world, tmp_path)


def test_delivery_to_an_old_copy_sends_what_the_copy_lacks(supplied: World, place: Place, tmp_path: Path) -> None:
    world = supplied
    world.ingest(*notes(3))
    supply(world.ledger)
    put_back = place.copied(tmp_path / "old")
    world.ingest(*notes(2, 3))
    supply(world.ledger)
    put_back()
    world.ingest(*notes(1, 5))
    assert supply(world.ledger).sent == 3
    assert equals(world, place)


def test_emptied_place_is_noticed_and_filled(supplied: World, place: Place, tmp_path: Path) -> None:
    world = supplied
    world.ingest(*notes(3))
    supply(world.ledger)
    place.emptied()
    assert place.read() == {}
    assert look(world, tmp_path)
    assert supply(world.ledger).sent == 3
    assert equals(world, place)


def test_sink_ahead_of_a_ledger_put_back_by_hand_is_repaired(supplied: World, place: Place, tmp_path: Path) -> None:
    """Numbers of documents are given again, to other documents."""
    world = supplied
    world.ingest(*notes(4))
    supply(world.ledger)
    put_back = copied_ledger(world, tmp_path / "old")
    get_ahead(world)
    supply(world.ledger)
    put_back()
    world.ingest(*(note(f"n/anew{n}.md") for n in range(2)))
    supply(world.ledger)
    assert equals(world, place)
    assert not look(world, tmp_path)


def test_sink_ahead_of_a_restored_backup_is_repaired(supplied: World, place: Place, tmp_path: Path) -> None:
    world = supplied
    world.ingest(*notes(4))
    supply(world.ledger)
    world.ledger.back_up(tmp_path / "backup.db", {})
    get_ahead(world)
    supply(world.ledger)
    restored(world, tmp_path / "backup.db")
    world.ingest(*(note(f"n/anew{n}.md") for n in range(2)))
    supply(world.ledger)
    assert equals(world, place)


def test_revoked_text_in_an_old_copy_is_deleted(supplied: World, place: Place, tmp_path: Path) -> None:
    """The place is away during the withdrawal, and returns as a copy that still has the text."""
    world = supplied
    world.ingest(*notes(3))
    supply(world.ledger)
    put_back = place.copied(tmp_path / "old")
    assert len(place.read()) == 3
    with place.away():
        assert sum(world.ledger.purging.items(world.source.id, lambda _: True)) == 3
        with pytest.raises(SinkUnavailable):
            supply(world.ledger)
    assert world.ledger.outbox.get("copy").waiting == 3
    put_back()
    supply(world.ledger)
    assert place.read() == {}
    put_back()
    assert len(place.read()) == 3
    assert look(world, tmp_path)
    supply(world.ledger)
    assert place.read() == {}
    assert equals(world, place)


def test_any_swap_of_place_and_ledger_ends_equal(supplied: World, place: Place, tmp_path: Path) -> None:
    """Copies of place and ledger are made and put back in any order, also beside changes that were not delivered."""
    world, random_ = supplied, random.Random(11)
    supply(world.ledger)
    places, ledgers = [place.copied(tmp_path / "p")], [copied_ledger(world, tmp_path / "l")]
    for step in range(40):
        match random_.randrange(7):
            case 0:
                places.append(place.copied(tmp_path / f"p{step}"))
            case 1:
                ledgers.append(copied_ledger(world, tmp_path / f"l{step}"))
            case 2:
                random_.choice(places)()
            case 3:
                random_.choice(ledgers)()
            case 4:
                world.lose(f"n/{random_.randrange(8)}.md")
                world.settle()
            case _:
                n = random_.randrange(8)
                world.ingest(note(f"n/{n}.md", f"v{step}", f"n{n}"))
        if random_.random() < 0.5:
            if look(world, tmp_path):
                supply(world.ledger)
            assert equals(world, place), step


def test_kill_between_sink_and_ledger_ends_equal(supplied: World, place: Place, tmp_path: Path) -> None:
    """The sink has the batch and its stamp, and the ledger neither."""
    world = supplied
    world.ingest(*notes(3))
    supply(world.ledger)
    world.ingest(note("n/0.md", "v2", "n0"), note("n/new.md"))
    assert killed(world, tmp_path, "outbox.Outbox.received: before commit")
    assert world.ledger.outbox.get("copy").waiting == 2
    supply(world.ledger)
    assert equals(world, place)
    assert not look(world, tmp_path)


@pytest.mark.parametrize("moment", ["outbox.Outbox._set: before commit", "outbox.Outbox._set: after commit"])
def test_killed_rebuild_before_a_restore_ends_equal(supplied: World, place: Place, tmp_path: Path, moment: str) -> None:
    world = supplied
    world.ingest(*notes(4))
    supply(world.ledger)
    world.ledger.back_up(tmp_path / "backup.db", {})
    get_ahead(world)
    world.ledger.outbox.set_state("copy", SinkState.EMPTYING, "operator:anna")
    assert killed(world, tmp_path, moment)
    assert place.read() == {}
    restored(world, tmp_path / "backup.db")
    supply(world.ledger)
    assert equals(world, place)


def test_sink_of_an_earlier_version_is_compared_once_and_stamped(supplied: World, place: Place, tmp_path: Path) -> None:
    world = supplied
    world.ingest(*notes(2))
    supply(world.ledger)
    with sinks.opened(place.kind, place.place, place.secret) as opened:
        opened.write([], [1])
        opened.mark("")
    with world.ledger._store.write() as writing:
        # As the migration does.
        writing.execute(update(sinks_table).values(stamp=None, compared=0))
    assert supply(world.ledger).sent == 1
    assert equals(world, place)
    assert not look(world, tmp_path)


def test_two_sinks_of_one_home_cannot_share_a_place(supplied: World, place: Place, tmp_path: Path) -> None:
    world = supplied
    outbox = world.ledger.outbox
    world.ingest(*notes(2))
    supply(world.ledger)
    outbox.add("second", place.kind, place.place, place.secret, "operator:anna")
    with pytest.raises(SinkUnavailable, match=r"second: another home or sink writes to its place; .* adopt second"):
        supply(world.ledger, "second")
    adopt(world, tmp_path / "home", "second")
    supply(world.ledger, "second")
    outbox.set_state("copy", SinkState.ACTIVE, "operator:anna")
    with pytest.raises(SinkUnavailable, match=r"copy: another home or sink writes to its place; .* sinks adopt copy"):
        supply(world.ledger)
    outbox.set_state("copy", SinkState.EMPTYING, "operator:anna")
    with pytest.raises(SinkUnavailable):
        supply(world.ledger)
    assert len(place.read()) == 2, "a rebuild deletes nothing of another sink"
    adopt(world, tmp_path / "home")
    supply(world.ledger)
    assert equals(world, place)
    engine.look(Home(tmp_path / "home"), world.ledger, "second", sinks.opened)
    assert "another home or sink" in str(outbox.get("second").error)


@contextmanager
def homes(tmp_path: Path) -> Iterator[tuple[World, Callable[[], World]]]:
    """Yield a world with a home, and a function that copies the home by hand and returns the world of the copy."""
    clock = Clock()
    opened = list[World]()

    def made(folder: Path) -> World:
        home = Home(folder).make()
        world = World("", clock, Ledger.open(home, clock=clock, monotonic=clock.steady))
        opened.append(world)
        return world

    def copied() -> World:
        opened[0].ledger.close()
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        opened[0].ledger = Ledger.open(Home(tmp_path / "one"), clock=clock, monotonic=clock.steady)
        return made(tmp_path / "two")

    yield made(tmp_path / "one"), copied
    for world in opened:
        with suppress(Refused):
            world.ledger.close()


@contextmanager
def copied_after_a_delivery(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[World, World]]:
    """Yield a home that has supplied a place with two notes, and its copy."""
    monkeypatch.delenv("CATCHMENT_DATABASE_URL", raising=False)
    with sinks.opened(place.kind, place.place, place.secret, create=True):
        pass
    with homes(tmp_path) as (one, copied):
        one.ledger.outbox.add("copy", place.kind, place.place, place.secret, "operator:anna")
        one.ingest(*notes(2))
        supply(one.ledger)
        two = copied()
        yield one, two


def test_copied_home_is_refused_at_the_sinks_of_the_original(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with copied_after_a_delivery(place, tmp_path, monkeypatch) as (one, two):
        two.ingest(*notes(1, 2))
        with pytest.raises(SinkUnavailable, match="another home or sink writes to its place"):
            supply(two.ledger)
        one.ingest(*notes(2, 4))
        assert supply(one.ledger).sent == 2, "the original continues without a comparison"
        assert equals(one, place)
        one.ingest(*notes(1, 9))
        adopt(two, tmp_path / "two")
        for _ in range(2):
            with pytest.raises(SinkUnavailable, match="another home or sink"):
                supply(one.ledger)
        assert supply(two.ledger).sent
        assert equals(two, place)


def test_delivery_of_the_former_home_ends_when_its_place_is_adopted(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operation during which the place is adopted is the last one. If it sets a stamp, `adopt` must be repeated."""
    with copied_after_a_delivery(place, tmp_path, monkeypatch) as (one, two):
        two.ingest(*notes(1, 4))
        for moment in itertools.count(1):
            one.ledger.outbox.set_state("copy", SinkState.ACTIVE, "operator:anna")
            one.ingest(note("n/0.md", f"v{moment}", "n0"))
            operations = list[str]()
            opened = interrupted(one, moment, lambda _: adopt(two, tmp_path / "two"), operations)
            with suppress(SinkUnavailable):
                engine.deliver(one.ledger, "copy", opened, lambda: True, engine.DeliveryCounts())
            if len(operations) < moment:
                break
            if operations[moment - 1] == "mark":
                with pytest.raises(SinkUnavailable, match="another home or sink"):
                    supply(two.ledger)
                adopt(two, tmp_path / "two")
            with pytest.raises(SinkUnavailable, match="another home or sink"):
                supply(one.ledger)
            supply(two.ledger)
            assert equals(two, place), moment
            adopt(one, tmp_path / "one")
            supply(one.ledger)
        assert moment > 5


def test_adopted_place_that_is_away_changes_nothing(supplied: World, place: Place, tmp_path: Path) -> None:
    world = supplied
    world.ingest(*notes(2))
    supply(world.ledger)
    before = _facts(world)
    with place.away(), pytest.raises(SinkUnavailable):
        adopt(world, tmp_path / "home")
    assert _facts(world) == before


def _facts(world: World) -> tuple[SinkRow, int]:
    with world.ledger.trail() as trail:
        return world.ledger.outbox.get("copy"), trail.length


@pytest.mark.parametrize("place", ["folder", "jsonl", pytest.param("neo4j", marks=pytest.mark.full)], indirect=True)
def test_empty_place_with_the_stamp_of_a_former_sink_needs_no_adoption(
    world: World, place: Place, tmp_path: Path
) -> None:
    """Chroma and PostgreSQL refuse a collection or schema that exists."""
    with sinks.opened(place.kind, place.place, place.secret, create=True) as opened:
        opened.mark("1f-1-00ff")
    desk = Desk(Home(tmp_path / "home").make(), *[lambda: nullcontext(world.ledger)] * 2)
    actions.add(desk, place.kind, place.place, "copy", "operator:anna", secret=place.secret)
    world.ingest(*notes(2))
    assert supply(world.ledger).sent == 2
    assert equals(world, place)


def test_place_being_written_by_its_home_is_refused_to_others(supplied: World, place: Place, tmp_path: Path) -> None:
    """Its documents are newer than its stamp, as in the middle of a batch."""
    world = supplied
    world.ledger.outbox.add("second", place.kind, place.place, place.secret, "operator:anna")
    world.ingest(*notes(2))
    supply(world.ledger)
    with sinks.opened(place.kind, place.place, place.secret) as opened:
        opened.write([], [1])
    with pytest.raises(SinkUnavailable, match="second: another home or sink"):
        supply(world.ledger, "second")


def test_look_says_when_a_sink_was_last_up_to_date(supplied: World, tmp_path: Path) -> None:
    world = supplied
    world.ingest(*notes(2))
    supply(world.ledger)
    before = world.ledger.outbox.get("copy").current
    world.clock.forward(minutes=5)
    assert not look(world, tmp_path)
    after = world.ledger.outbox.get("copy").current
    assert before and after == before + timedelta(minutes=5)


def test_idle_sink_that_is_away_is_noticed_and_its_return_too(supplied: World, place: Place, tmp_path: Path) -> None:
    world = supplied
    world.ingest(*notes(2))
    supply(world.ledger)
    with place.away():
        assert not look(world, tmp_path)
        assert not look(world, tmp_path)
        sink = world.ledger.outbox.get("copy")
        assert (sink.failures, bool(sink.error)) == (1, True)
    assert not look(world, tmp_path)
    assert world.ledger.outbox.get("copy").error is None


def test_delivery_without_work_opens_no_place(supplied: World, place: Place) -> None:
    world = supplied
    world.ingest(*notes(1))
    supply(world.ledger)
    with place.away():
        assert world.ledger.outbox.due() == []
