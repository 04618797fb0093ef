"""A task that harms its process fails alone, with its own reason; its neighbours run exactly once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from catchment.errors import CatchmentError, FailureClass, Reason
from catchment.parser_pool import Failed, ParserPool
from catchment.settings import Limits
from tests.parser_pool import jobs
from tests.parser_pool.processes import is_gone, leaving_nothing_behind
from tests.waiting import until

LIMITS = Limits(memory_mb=256)
IMPATIENT = Limits(stall_seconds=4, memory_mb=256)


@pytest.fixture(scope="module")
def pool() -> Iterator[ParserPool]:
    """One pool for all accidents: each test also shows that the accidents before it did no lasting harm."""
    with leaving_nothing_behind() as pool:
        yield pool


def run_deeds(pool: ParserPool, folder: Path, deeds: list[str], limits: Limits = LIMITS) -> dict[int, str | Failed]:
    tasks = [(str(folder / str(index)), deed) for index, deed in enumerate(deeds)]
    outcomes = list(pool.run(jobs.misbehave, tasks, limits))
    assert sorted(index for index, _ in outcomes) == list(range(len(deeds))), "one outcome for each task"
    return dict(outcomes)


def runs(folder: Path, index: int) -> int:
    return (folder / str(index)).stat().st_size


def test_four_accidents_in_a_batch_of_two_hundred_leave_196_results(pool: ParserPool, tmp_path: Path) -> None:
    deeds = ["fine"] * 200
    deeds[20], deeds[50], deeds[90], deeds[130] = "raise", "hang", "swell", "kill"
    outcomes = run_deeds(pool, tmp_path, deeds, IMPATIENT)
    failed = {index: outcome.error.reason for index, outcome in outcomes.items() if isinstance(outcome, Failed)}
    assert failed == {
        20: Reason.UNKNOWN,
        50: Reason.TIMEOUT,
        90: Reason.RESOURCE_EXHAUSTED,
        130: Reason.PROCESS_KILLED,
    }
    assert [runs(tmp_path, index) for index in range(200)] == [1] * 200


@pytest.mark.parametrize(
    ("deed", "reason", "says"),
    [
        ("raise", Reason.UNKNOWN, "ValueError"),
        ("refuse", Reason.PARSE_ERROR, "it is not a PDF"),
        ("wait_for_host", Reason.CONNECTOR_ERROR, "api.example.org: rate limit; retry in 30 s"),
        ("exit_python", Reason.UNKNOWN, "SystemExit"),
        ("recurse", Reason.RESOURCE_EXHAUSTED, "limits.memory_mb"),
        ("swell", Reason.RESOURCE_EXHAUSTED, "limits.memory_mb"),
        ("swell_in_shared_memory", Reason.RESOURCE_EXHAUSTED, "more than 256 MB"),
        ("abort_for_memory", Reason.RESOURCE_EXHAUSTED, "more than 256 MB"),
        ("spin", Reason.TIMEOUT, "limits.stall_seconds"),
        ("kill", Reason.PROCESS_KILLED, "SIGKILL"),
        ("segfault", Reason.PROCESS_KILLED, "SIGSEGV"),
        ("leave", Reason.PROCESS_KILLED, "status 0"),
        ("close_everything", Reason.PROCESS_KILLED, "status 1"),
        ("garble", Reason.PROCESS_KILLED, "invalid data"),
    ],
)
def test_an_accident_has_its_own_reason_and_harms_no_neighbour(
    pool: ParserPool, tmp_path: Path, deed: str, reason: Reason, says: str
) -> None:
    deeds = ["fine"] * 12
    deeds[4] = deed
    outcomes = run_deeds(pool, tmp_path, deeds, IMPATIENT if deed == "spin" else LIMITS)
    failed = outcomes.pop(4)
    assert isinstance(failed, Failed)
    assert failed.error.reason is reason
    assert says in str(failed.error)
    assert set(outcomes.values()) == {"fine"}
    assert [runs(tmp_path, index) for index in range(12)] == [1] * 12


def test_consecutive_accidents_are_distinguished(pool: ParserPool, tmp_path: Path) -> None:
    deeds = ["segfault", "kill", "raise", "leave", "refuse"] * 6
    outcomes = run_deeds(pool, tmp_path, deeds)
    reasons = [outcomes[index].error.reason for index in range(30)]  # type: ignore[union-attr]
    killed = Reason.PROCESS_KILLED
    assert reasons == [killed, killed, Reason.UNKNOWN, killed, Reason.PARSE_ERROR] * 6
    assert [runs(tmp_path, index) for index in range(30)] == [1] * 30


def test_unexpected_error_reports_its_location_but_no_content(pool: ParserPool, tmp_path: Path) -> None:
    failed = run_deeds(pool, tmp_path, ["raise"])[0]
    assert isinstance(failed, Failed)
    assert failed.error.failure_class is FailureClass.UNKNOWN
    assert failed.traceback.splitlines()[0] == "ValueError"
    assert "tests.parser_pool.jobs:" in failed.traceback
    assert "in _raise" in failed.traceback
    told = failed.traceback + str(failed.error) + repr(failed.error.args)
    assert "secret" not in told
    assert "/" not in told


@pytest.mark.parametrize("function", [jobs.return_a_lock, jobs.return_unreadable])
def test_result_that_cannot_be_pickled_fails_only_its_task(pool: ParserPool, function: object) -> None:
    ((_, failed),) = pool.run(function, [None], LIMITS)  # type: ignore[arg-type]
    assert isinstance(failed, Failed)
    assert failed.error.reason is Reason.UNKNOWN


def test_task_that_cannot_be_pickled_fails_alone(pool: ParserPool) -> None:
    outcomes = dict(pool.run(jobs.identify, [1, lambda: 2, 3], LIMITS))
    assert isinstance(outcomes[1], Failed)
    assert isinstance(outcomes[0], int)
    assert isinstance(outcomes[2], int)


def test_a_huge_result_arrives_and_one_beyond_bounds_is_refused(pool: ParserPool) -> None:
    sizes = [16 << 20, 257 << 20]
    outcomes = dict(pool.run(jobs.large, sizes, Limits(memory_mb=2_048)))
    assert isinstance(outcomes[0], bytes)
    assert len(outcomes[0]) == 16 << 20
    assert isinstance(outcomes[1], Failed)
    assert outcomes[1].error.reason is Reason.RESOURCE_EXHAUSTED


def test_progress_holds_off_the_stall_limit_but_not_the_total(pool: ParserPool) -> None:
    ((_, done),) = pool.run(jobs.advance, [1.0], Limits(stall_seconds=0.7))
    assert done == "done"
    ((_, failed),) = pool.run(jobs.advance, [60.0], Limits(stall_seconds=0.7, total_seconds=1))
    assert isinstance(failed, Failed)
    assert "limits.total_seconds" in str(failed.error)


def test_heartbeats_are_reported_while_waiting_for_an_outcome(pool: ParserPool) -> None:
    heard: list[float] = []
    tasks, limits = [1.0], Limits(stall_seconds=30)
    ((_, done),) = pool.run(jobs.advance, tasks, limits, lambda: heard.append(time.monotonic()))
    assert done == "done"
    assert len(heard) >= 3


def test_a_child_of_a_crashed_task_is_killed(pool: ParserPool, tmp_path: Path) -> None:
    file = tmp_path / "child"
    ((_, failed),) = pool.run(jobs.crash_and_leave_a_child, [str(file)], LIMITS)
    assert isinstance(failed, Failed)
    assert "status 7" in str(failed.error)
    until(lambda: is_gone(int(file.read_text())))


@pytest.mark.full
def test_every_catchment_error_round_trips(pool: ParserPool, tmp_path: Path) -> None:
    failed = run_deeds(pool, tmp_path, ["wait_for_host"])[0]
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CatchmentError)
    assert failed.error.retry_after == 30  # type: ignore[attr-defined]
