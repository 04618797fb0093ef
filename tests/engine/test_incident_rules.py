"""When conditions open and close incidents, by times alone; and a runbook for each reason code."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from catchment.errors import (
    CatchmentError,
    LedgerCorrupt,
    LedgerUnavailable,
    LoginFailed,
    RateLimited,
    SourceInvalid,
    SourceUnavailable,
)
from catchment.telemetry.incidents import FAIL, OK, WARN, Condition, Judge, ReasonCode, Verdict, problems, reason_of

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "catchment" / "telemetry" / "runbooks.md"
PROCEDURES = ROOT / "docs" / "runbooks.md"
LOCKED = Condition("ledger", FAIL, "locked", "wait", ReasonCode.LEDGER_UNWRITABLE)
HELD = Condition("deletions notes", FAIL, "12 deletions wait", "decide", ReasonCode.DELETIONS_HELD, "source:notes")


class Rules:
    """A judge with the incidents that are open by its judgements."""

    def __init__(self, *opened: Condition) -> None:
        self._judge, self._open = Judge(), {one.key for one in opened}

    def judge(self, conditions: list[Condition], now: float, *, is_partial: bool = False) -> tuple[bool, bool]:
        """Return whether anything opened, and whether anything closed."""
        opened, closed = self._judge.judge(conditions, self._open, now, is_partial=is_partial)
        self._open = {*self._open, *(one.key for one in opened)} - {*closed}
        return bool(opened), bool(closed)

    def opened(self, conditions: list[Condition], *moments: float) -> list[float]:
        """Return the moments at which something opened, while the conditions hold."""
        return [moment for moment in moments if self.judge(conditions, moment)[0]]

    def closed(self, *moments: float, is_partial: bool = False) -> list[float]:
        """Return the moments at which something closed, while no condition holds."""
        return [moment for moment in moments if self.judge([], moment, is_partial=is_partial)[1]]


def test_condition_must_hold_for_the_time_of_its_code() -> None:
    assert Rules().opened([LOCKED], 0, 10, 20, 30) == [20]
    assert Rules().opened([HELD], 5, 15) == [5]


def test_condition_that_flaps_opens_nothing() -> None:
    rules = Rules()
    assert not any(rules.judge([LOCKED] if n % 3 else [], 10.0 * n)[0] for n in range(30))


def test_incident_closes_after_its_condition_is_gone_for_a_while() -> None:
    assert Rules(LOCKED).closed(0, 10, 20, 30) == [20]
    assert Rules(HELD).closed(0, 10) == [0], "what cannot flap is over at once"


def test_return_of_the_condition_keeps_an_incident_open() -> None:
    rules = Rules(LOCKED)
    assert not any(any(rules.judge([] if n % 2 else [LOCKED], 10.0 * n)) for n in range(10))


def test_time_before_an_incident_opened_does_not_count_for_its_end() -> None:
    rules = Rules()
    assert rules.opened([LOCKED], 0, 10, 20) == [20]
    assert rules.closed(40, 50, 60) == [60]
    assert rules.opened([LOCKED], 70, 80, 90) == [90]


def test_sleep_of_the_machine_starts_the_waiting_again() -> None:
    rules = Rules()
    assert rules.opened([LOCKED], 0, 10) == []
    assert rules.opened([LOCKED], 3_620, 3_630) == []
    assert rules.opened([LOCKED], 3_640) == [3_640]


def test_sleep_of_the_machine_closes_nothing_at_once() -> None:
    assert Rules(LOCKED).closed(0, 3_600, 3_620) == [3_620]


def test_partial_knowledge_closes_nothing() -> None:
    rules = Rules(LOCKED)
    assert rules.closed(*range(0, 100, 10), is_partial=True) == []
    assert rules.closed(100, 110, 120) == [120]


def test_condition_with_another_subject_is_another_incident() -> None:
    assert Rules(HELD).opened([HELD, replace(HELD, subject="source:mail")], 0) == [0]


def of(code: ReasonCode, subject: str = "", verdict: Verdict = FAIL) -> Condition:
    return Condition("x", verdict, "bad", "", code, subject)


@pytest.mark.parametrize(
    ("cause", "consequences"),
    [
        (
            of(ReasonCode.LOGIN_REFUSED, "source:mail"),
            [of(code, "source:mail", WARN) for code in (ReasonCode.WATCH_LIMITED, ReasonCode.LOGIN_EXPIRING)],
        ),
        (
            of(ReasonCode.DISK_FULL),
            [of(ReasonCode.LEDGER_UNWRITABLE), of(ReasonCode.SYNC_FAILED, "source:mail"), of(ReasonCode.UPKEEP_FAILED)],
        ),
        (of(ReasonCode.SOURCE_HELD, "source:mail"), [of(ReasonCode.SOURCE_UNREACHABLE, "source:mail")]),
    ],
)
def test_consequences_fold_into_their_cause(cause: Condition, consequences: list[Condition]) -> None:
    assert problems([*consequences, cause]) == [cause]
    assert {*problems([replace(cause, verdict=OK), *consequences])} <= {*consequences}


def test_problems_of_two_sources_are_two_worst_first() -> None:
    watch, login = of(ReasonCode.WATCH_LIMITED, "source:notes"), of(ReasonCode.LOGIN_REFUSED, "source:mail")
    assert problems([watch, HELD, login]) == [login, HELD, watch]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SourceUnavailable("x"), ReasonCode.SOURCE_UNREACHABLE),
        (SourceInvalid("x"), ReasonCode.SOURCE_INVALID),
        (LoginFailed("x"), ReasonCode.LOGIN_REFUSED),
        (RateLimited("host"), ReasonCode.HOST_THROTTLED),
        (LedgerCorrupt("x"), ReasonCode.LEDGER_DAMAGED),
        (LedgerUnavailable("x"), ReasonCode.LEDGER_UNWRITABLE),
        (CatchmentError("x"), ReasonCode.SYNC_FAILED),
    ],
)
def test_error_is_known_by_its_class(error: CatchmentError, code: ReasonCode) -> None:
    assert reason_of(error) is code


def test_each_reason_code_has_one_runbook_and_each_code_exists() -> None:
    assert re.findall(r"^## (.+)$", RUNBOOKS.read_text(encoding="utf-8"), re.MULTILINE) == [*ReasonCode]
    assert all(code.help and len(code.runbook) > 50 for code in ReasonCode)
    headings = re.findall(r"^## .+$", PROCEDURES.read_text(encoding="utf-8"), re.MULTILINE)
    assert {code for heading in headings for code in re.findall(r"`([a-z]+\.[a-z]+)`", heading)} <= {*ReasonCode}
