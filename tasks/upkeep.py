"""The tasks of the daily clean-up: expire tombstones, undo data and results, and check the ledger."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta

from prefect import task

from catchment.audit import chain
from catchment.content.cache import Cache
from catchment.ledger import Ledger
from catchment.settings import CachePolicy, Home
from catchment.sync.batch import forget_done
from catchment.sync.kept_raw import forget_raw
from catchment.views.health import LastCheck
from tasks.redacted_errors import in_thread

_MOST_TEXT = 1_000_000_000
"""Characters of text kept to undo syncs that no document contains any more; the oldest are deleted beyond this."""
_RESULTS = timedelta(days=CachePolicy.model_fields["days"].default)


@task(name="forget-deleted", task_run_name="expire deleted documents and undo data", persist_result=False)
async def forget_deleted() -> int:
    """Delete items that were deleted longer ago than `keep_days` of their source. Returns the number of items.

    Also deletes undo data of that age, cached texts that no job needs, raw content of purged items or above its limit, and the
    rates of hosts without a request for two days.
    """
    return await in_thread(_forget_deleted)


@task(name="forget-results", task_run_name="delete old results", persist_result=False)
async def forget_results() -> int:
    """Delete task results and plans that are older than the longest default cache policy. Returns the number of files."""
    return await asyncio.to_thread(_forget_results, _RESULTS)


@task(name="check-ledger", task_run_name="check the ledger", persist_result=False)
async def check_ledger() -> int:
    """Check the invariants of the ledger, record the result for `catchment check`, and sign an intact history.

    Returns the number of violations and of differences from the signed history.
    """
    return await in_thread(_check_ledger)


def _forget_deleted() -> int:
    home = Home.default().make()
    with closing(Ledger.open(home)) as ledger, closing(Cache(home.cache)) as cache:
        forgotten = ledger.intake.purge()
        ledger.undo.purge(_MOST_TEXT)
        ledger.pacing.purge()
        forget_done(cache, ledger)
        forget_raw(home, ledger)
        return forgotten


def _forget_results(age: timedelta) -> int:
    before = time.time() - age.total_seconds()
    home = Home.default()
    forgotten = 0
    for path in itertools.chain((home.prefect / "storage").rglob("*"), home.plans.glob("*")):
        # Its owner may delete it meanwhile.
        with suppress(FileNotFoundError):
            if path.is_file() and path.stat().st_mtime < before:
                path.unlink()
                forgotten += 1
    return forgotten


def _check_ledger() -> int:
    home = Home.default().make()
    with closing(Ledger.inspect(home)) as ledger:
        broken = len(ledger.check())
        differences = 0 if broken else len(chain.verify(home, ledger, sign=True).problems)
    LastCheck(datetime.now(UTC), broken, differences).write(home)
    return broken + differences
