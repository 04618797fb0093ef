"""Which source is blamed for the loss of a runner, and when it is held."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from deployments.runs.live_runs import Blame, BlameDecision

CAUSE = "was killed by SIGKILL"


def judge(blame: Blame, **steps: str | None) -> tuple[str | None, BlameDecision]:
    """Return the blamed source and the decision. `steps` by source; None if they are unknown."""
    names: dict[UUID, str] = {uuid4(): name for name in steps}
    known = {run: step for run, name in names.items() if (step := steps[name]) is not None}
    verdict = blame.judge(CAUSE, names, known)
    return names[verdict.culprit] if verdict.culprit else None, verdict


@pytest.mark.parametrize(
    ("steps", "culprit"),
    [
        ({"notes": "process"}, "notes"),
        ({"notes": ""}, "notes"),
        ({"notes": "process", "mail": "", "docs": ""}, "notes"),
        ({"upkeep": None, "mail": ""}, "upkeep"),
        ({"notes": "process", "mail": "discover"}, None),
        ({"notes": "", "mail": ""}, None),
        ({"notes": "process", "upkeep": None}, None),
    ],
)
def test_only_possible_cause_is_blamed(steps: dict[str, str | None], culprit: str | None) -> None:
    assert judge(Blame(), **steps)[0] == culprit


def test_reason_names_cause_source_and_step() -> None:
    assert judge(Blame(), notes="process")[1].reason == f"the runner {CAUSE} while notes was in the step process"


def test_several_possible_causes_are_named_and_become_suspects() -> None:
    blame = Blame()

    _, verdict = judge(blame, notes="process", mail="discover", docs="")

    assert "one of mail, notes" in verdict.reason
    assert [name for name in ("notes", "mail", "docs") if blame.is_suspect(name)] == ["notes", "mail"]


def test_second_loss_blames_the_suspect_that_ran() -> None:
    blame = Blame()
    judge(blame, notes="process", mail="discover")

    culprit, verdict = judge(blame, notes="process", docs="discover")

    assert (culprit, verdict.is_held) == ("notes", False)
    assert not blame.is_suspect("mail")


def test_loss_of_another_runner_changes_no_suspicion() -> None:
    blame = Blame()
    judge(blame, notes="process", mail="discover")

    assert judge(blame, shelf="discover")[0] == "shelf"
    judge(blame, quotes="discover", books="discover")

    assert [name for name in ("notes", "mail", "quotes", "books") if not blame.is_suspect(name)] == []


def test_source_is_held_for_its_second_restart() -> None:
    blame = Blame()

    assert [judge(blame, notes="process")[1].is_held for _ in range(2)] == [False, True]
    assert not judge(blame, mail="process")[1].is_held


def test_completed_sync_absolves_its_source() -> None:
    blame = Blame()
    judge(blame, notes="process")
    judge(blame, notes="process", mail="process")

    blame.absolve("notes")

    assert not blame.is_suspect("notes")
    assert not judge(blame, notes="process")[1].is_held
