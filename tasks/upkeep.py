"""What is done once a day: letting go of old tombstones and of results that Prefect knew a step by; checking the ledger."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from prefect import task

from catchment.health import record_check
from catchment.ledger import Ledger
from catchment.settings import CachePolicy, Home
from tasks.quiet import in_thread

TOMBSTONE = timedelta(days=30)
_RESULTS = timedelta(days=CachePolicy.model_fields["days"].default)


@task(name="forget-deleted", task_run_name="forget what was deleted {days} days ago", persist_result=False)
async def forget_deleted(days: int) -> int:
    """Delete for good the items that are gone for so long, with their withdrawn documents; how many."""
    return await in_thread(_forget_deleted, timedelta(days=days))


@task(name="forget-results", task_run_name="forget old results", persist_result=False)
async def forget_results() -> int:
    """Delete the result files that no cache policy asks for any more; how many."""
    return await asyncio.to_thread(_forget_results, _RESULTS)


@task(name="check-ledger", task_run_name="check the ledger", persist_result=False)
async def check_ledger() -> int:
    """Prove the invariants of the ledger and remember the answer for `catchment health`; how many do not hold."""
    return await in_thread(_check_ledger)


def _forget_deleted(age: timedelta) -> int:
    ledger = Ledger.open(Home.default().make().database_url)
    try:
        return ledger.intake.purge(age)
    finally:
        ledger.close()


def _forget_results(age: timedelta) -> int:
    before = time.time() - age.total_seconds()
    files = (path for path in (Home.default().prefect / "storage").rglob("*") if path.is_file())
    old = [path for path in files if path.stat().st_mtime < before]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _check_ledger() -> int:
    home = Home.default().make()
    ledger = Ledger.inspect(home.database_url)
    try:
        broken = len(ledger.check())
    finally:
        ledger.close()
    record_check(home, broken)
    return broken
