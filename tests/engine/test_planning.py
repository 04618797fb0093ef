"""Plans: a dry run reports the changes of a sync and applies none; a sync by a plan applies exactly those."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from catchment.errors import BadInput, NotFound
from catchment.ledger.admin.scratch import PlannedAction
from catchment.settings import Home
from catchment.sync.plan import Plan, load_plan, save_plan
from tests.engine.papers import Papers


@pytest.fixture
def papers(home: Home, tmp_path: Path) -> Papers:
    made = Papers(home, tmp_path / "papers")
    for n in range(4):
        made.write(f"{n}.md", f"Paper {n}")
    made.write("sub/deep.md", "Below")
    made.sync()
    return made


def done(plan: Plan) -> dict[str, str]:
    return {step.item: step.action.value for step in plan.steps}


def change_much(papers: Papers) -> None:
    papers.write("new.md", "New")
    papers.write("1.md", "Paper one, changed")
    (papers.folder / "2.md").unlink()
    (papers.folder / "3.md").rename(papers.folder / "sub" / "third.md")
    with (papers.folder / "huge.bin").open("wb") as file:
        file.truncate(200_000_000)


EXPECTED = {"new.md": "add", "1.md": "change", "2.md": "delete", "sub/third.md": "move", "huge.bin": "skip"}


def test_plan_lists_each_item_once_and_changes_no_state(papers: Papers) -> None:
    change_much(papers)
    file = Path(papers.home.database_url.removeprefix("sqlite:///"))
    before, events = papers.documents(), papers.ledger.history.of_item(1)
    size = file.stat().st_size
    plan = papers.plan()
    assert done(plan) == EXPECTED
    assert [(s.was, s.reads) for s in plan.steps if s.action is PlannedAction.MOVE] == [("3.md", False)]
    assert plan.totals[PlannedAction.CHANGE] == (1, len("Paper one, changed"))
    assert (plan.reads, plan.seconds is not None, plan.requests) == (2, True, None)
    assert (papers.documents(), papers.ledger.history.of_item(1)) == (before, events)
    assert papers.ledger.queue.waiting(papers.source.id).ready == 0
    assert (file.stat().st_size, done(papers.plan())) == (size, EXPECTED), "it may be made again"


def test_sync_after_a_plan_applies_its_changes(papers: Papers) -> None:
    change_much(papers)
    plan = papers.plan()
    summary = papers.sync()
    assert (summary["succeeded"], summary["deleted"], summary["moved"], summary["skipped"]) == (2, 1, 1, 1)
    assert done(plan) == EXPECTED
    assert papers.plan().steps == ()


def test_plan_of_an_unsynced_source_lists_all_items(home: Home, tmp_path: Path) -> None:
    fresh = Papers(home, tmp_path / "papers")
    fresh.write("a.md", "A")
    plan = fresh.plan()
    assert (done(plan), plan.seconds) == ({"a.md": "add"}, None)
    assert fresh.ledger.intake.known(fresh.source.id).is_empty()


def test_deletions_that_would_be_held_are_reported_as_held(papers: Papers) -> None:
    for n in range(20):
        papers.write(f"many/{n}.md", f"One of many: {n}")
    papers.sync()
    shutil.rmtree(papers.folder / "many")
    held = [step for step in papers.plan().steps if step.action is PlannedAction.HOLD]
    assert (len(held), {step.why for step in held}) == (20, {"20 of 25 items are gone"})
    assert papers.ledger.intake.holds() == []
    assert papers.sync()["held"] == 20
    assert {step.action for step in papers.plan().steps} == {PlannedAction.HOLD}, "and so they are while they are held"


def test_sync_by_a_plan_leaves_later_changes_to_the_next_sync(papers: Papers) -> None:
    change_much(papers)
    plan = Plan.from_json(_written(papers.plan()))
    papers.write("1.md", "Paper one, changed again")
    papers.write("later.md", "Came later")
    papers.write("2.md", "It is back")
    (papers.folder / "new.md").unlink()
    summary = papers.sync(plan)
    assert (summary["left"], summary["moved"], summary["skipped"], summary["deleted"]) == (4, 1, 1, 0)
    assert papers.documents() == {
        "0.md": "Paper 0",
        "1.md": "Paper 1",
        "2.md": "Paper 2",
        "sub/deep.md": "Below",
        "sub/third.md": "Paper 3",
    }
    assert papers.sync()["left"] == 0
    assert papers.documents()["1.md"] == "Paper one, changed again"
    assert papers.documents().keys() >= {"later.md", "2.md"}
    assert papers.ledger.check(deep=True) == []


def test_folder_renamed_during_a_planned_sync_keeps_its_documents(papers: Papers) -> None:
    papers.write("sub/kept.md", "what is kept")
    papers.sync()
    before = papers.documents()
    (papers.folder / "sub").rename(papers.folder / "other")
    plan = papers.plan()
    papers.write("0/later.md", "after the plan")
    papers.write("other/later.md", "after the plan")
    assert papers.sync(plan)["left"] == 2
    (papers.folder / "other/later.md").unlink()
    (papers.folder / "0/later.md").unlink()
    (papers.folder / "other").rename(papers.folder / "sub")
    papers.sync()
    assert papers.documents() == before


def test_sync_by_a_current_plan_applies_all_of_it(papers: Papers) -> None:
    change_much(papers)
    summary = papers.sync(Plan.from_json(_written(papers.plan())))
    assert (summary["left"], summary["succeeded"], summary["deleted"]) == (0, 2, 1)
    assert papers.plan().steps == ()


def test_deep_plan_detects_an_edit_with_unchanged_size_and_time(
    papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = papers.ledger
    with ledger._store.write() as writing:
        # Simulate an earlier read with other contents.
        writing.connection.exec_driver_sql("UPDATE items SET content_hash = 'another' WHERE locator = '0.md'")
    assert papers.plan().steps == ()
    plan = papers.plan(deep=True)
    assert (done(plan), Plan.from_json(_written(plan)).deep) == ({"0.md": "change"}, True)


def test_plan_is_valid_only_for_its_source(papers: Papers) -> None:
    name = save_plan(papers.home, _written(papers.plan()))
    assert load_plan(papers.home, name, "papers").reports == frozenset()
    with pytest.raises(BadInput, match="made for papers"):
        load_plan(papers.home, name, "notes")
    with pytest.raises(NotFound):
        load_plan(papers.home, "0" * 16, "papers")


@pytest.mark.parametrize("data", [b"", b"[]", b'{"catchment_plan": 99}', b'{"catchment_plan": 1, "source": 3}'])
def test_invalid_plan_is_refused(home: Home, data: bytes) -> None:
    with pytest.raises(BadInput, match="not a plan"):
        save_plan(home, data)


def _written(plan: Plan) -> bytes:
    import json

    return json.dumps(plan.to_json()).encode()
