"""Our changes to private parts of Prefect's server are made with the installed version, and it does the rest by itself."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from deployments.server.environment import is_tried

_SCRIPT = """
import asyncio, contextlib, uuid, zoneinfo
import aiosqlite, sqlalchemy
from deployments.server.app import adapt_prefect

adapt_prefect()

from deployments.server import run_names
from prefect.server.api.clients import OrchestrationClient
from prefect.server.api.server import create_app
from prefect.server.database import provide_database_interface
from prefect.server.models import deployments, flow_runs
from prefect.server.schemas.states import StateDetails
from prefect.server.utilities.database import Pydantic
from prefect.server.schemas.schedules import CronSchedule, IntervalSchedule

async def statements():
    database, sent = provide_database_interface(), []
    engine = await database.engine()
    sqlalchemy.event.listen(engine.sync_engine, "before_cursor_execute", lambda *given: sent.append(given[2]))
    calls, execute = [], aiosqlite.Connection._execute
    aiosqlite.Connection._execute = lambda *given, **named: calls.append(given) or execute(*given, **named)
    async with database.session_context(begin_transaction=True) as session:
        rows = (await session.execute(sqlalchemy.text("SELECT :one UNION SELECT 2"), {"one": 1})).all()
        assert rows == [(1,), (2,)]
        calls.clear()
        created = await session.execute(sqlalchemy.text("CREATE TABLE pairs (name, number)"))
        assert not created.returns_rows
        added = await session.execute(sqlalchemy.text("INSERT INTO pairs VALUES ('a', :n), ('b', 2)"), {"n": 1})
        assert added.rowcount == 2
        with contextlib.suppress(sqlalchemy.exc.OperationalError):
            await session.execute(sqlalchemy.text("SELECT nothing"))
            raise AssertionError("no error")
        assert len(calls) == 3, "a statement crosses to the thread more than once"
    return sent

assert asyncio.run(statements())[0] == "BEGIN IMMEDIATE"

details = StateDetails(flow_run_id=uuid.uuid4(), cache_key="key")
stored = Pydantic(StateDetails).process_bind_param(details, None)
assert None not in stored.values() and StateDetails.model_validate(stored) == details

for function in (deployments._generate_scheduled_flow_runs, flow_runs.create_flow_run):
    assert function.__module__ == run_names.__name__, function

assert [*CronSchedule(cron="0 7 * * *", timezone="Europe/Berlin")._get_dates_generator(n=2)]

app = create_app(final=True)
assert OrchestrationClient()._http_client._transport.app is app, "the application is made twice"
IntervalSchedule(interval=60, timezone="Europe/Berlin")
zoneinfo.available_timezones = None
IntervalSchedule(interval=60, timezone="Europe/Berlin")
"""


def test_installed_prefect_is_the_one_that_is_adapted() -> None:
    assert is_tried(version("prefect")), "compare the parts that docs/prefect.md lists, then set TRIED_PREFECT"


@pytest.mark.full
def test_prefects_server_is_adapted(tmp_path: Path) -> None:
    environment = {"PREFECT_HOME": str(tmp_path), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    subprocess.run([sys.executable, "-c", _SCRIPT], env=environment, check=True, timeout=120)
