"""When conditions open and close incidents, by times alone; and a runbook for each reason code."""

from __future__ import annotations

import re
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
from catchment.telemetry.incidents import Condition, Judge, ReasonCode, reason_of

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "catchment" / "telemetry" / "runbooks.md"
PROCEDURES = ROOT / "docs" / "runbooks.md"
SILENT = Condition(ReasonCode.SERVER_SILENT, "", "no response", "wait")
HELD = Condition(ReasonCode.DELETIONS_HELD, "source:notes", "12 deletions wait", "decide")


def opened(judge: Judge, conditions: list[Condition], *moments: float) -> list[float]:
    """Return the moments at which something opened, while the conditions hold."""
    return [moment for moment in moments if judge.judge(conditions, moment).opened]


def test_condition_must_hold_for_the_time_of_its_code() -> None:
    assert opened(Judge([]), [SILENT], 0, 10, 20, 30, 40) == [30]
    assert opened(Judge([]), [HELD], 5, 15) == [5]


def test_condition_that_flaps_opens_nothing() -> None:
    judge = Judge([])
    assert [judge.judge([SILENT] if n % 3 else [], 10.0 * n).opened for n in range(30)] == [()] * 30


def test_incident_closes_after_its_condition_is_gone_for_a_while() -> None:
    judge = Judge([HELD])
    assert [bool(judge.judge([], at).closed) for at in (0, 10, 20)] == [False, False, True]
    assert judge.judge([], 30).closed == ()


def test_return_of_the_condition_keeps_an_incident_open() -> None:
    judge = Judge([HELD])
    moments = [judge.judge([] if n % 2 else [HELD], 10.0 * n) for n in range(10)]
    assert not any(moment.closed or moment.opened for moment in moments)


def test_time_before_an_incident_opened_does_not_count_for_its_end() -> None:
    judge = Judge([])
    assert opened(judge, [SILENT], 0, 10, 20, 30) == [30]
    assert [bool(judge.judge([], at).closed) for at in (40, 50, 60)] == [False, False, True]
    assert opened(judge, [SILENT], 70, 80, 90, 100) == [100]


def test_other_message_changes_an_incident_once() -> None:
    judge, more = Judge([HELD]), Condition(HELD.reason, HELD.subject, "13 deletions wait", "decide")
    assert judge.judge([more], 0).changed == (more,)
    assert judge.judge([more], 10) == judge.judge([more], 20)
    assert judge.judge([more], 30).changed == ()


def test_sleep_of_the_machine_starts_the_waiting_again() -> None:
    judge = Judge([])
    assert opened(judge, [SILENT], 0, 20) == []
    assert opened(judge, [SILENT], 3_620, 3_630, 3_640) == []
    assert opened(judge, [SILENT], 3_650) == [3_650]


def test_sleep_of_the_machine_closes_nothing_at_once() -> None:
    judge = Judge([HELD])
    judge.judge([], 0)
    assert judge.judge([], 3_600).closed == ()
    assert judge.judge([], 3_620).closed == (HELD,)


def test_partial_knowledge_closes_nothing() -> None:
    judge = Judge([HELD])
    assert [judge.judge([], 10.0 * n, is_partial=True).closed for n in range(10)] == [()] * 10
    assert [bool(judge.judge([], 100.0 + 10 * n).closed) for n in range(3)] == [False, False, True]


def test_condition_with_another_subject_is_another_incident() -> None:
    judge, other = Judge([HELD]), Condition(HELD.reason, "source:mail", "1 deletion waits", "decide")
    assert judge.judge([HELD, other], 0).opened == (other,)


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
