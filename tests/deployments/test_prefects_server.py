"""Our changes to private parts of Prefect's server are made with the installed version, and it does the rest by itself."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from deployments.server.environment import is_tried

_SCRIPT = """
import asyncio, zoneinfo
import sqlalchemy
from deployments.server.app import adapt_prefect

adapt_prefect()

from deployments.server import run_names
from prefect.server.api.clients import OrchestrationClient
from prefect.server.api.server import create_app
from prefect.server.database import provide_database_interface
from prefect.server.models import deployments, flow_runs
from prefect.server.schemas.schedules import CronSchedule, IntervalSchedule

async def statements():
    database, sent = provide_database_interface(), []
    engine = await database.engine()
    sqlalchemy.event.listen(engine.sync_engine, "before_cursor_execute", lambda *given: sent.append(given[2]))
    async with database.session_context(begin_transaction=True) as session:
        await session.execute(sqlalchemy.text("SELECT 1"))
    return sent

assert asyncio.run(statements())[0] == "BEGIN IMMEDIATE"
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
    assert is_tried(version("prefect")), "compare the parts that docs/internals.md lists, then set TRIED_PREFECT"


@pytest.mark.full
def test_prefects_server_is_adapted(tmp_path: Path) -> None:
    environment = {"PREFECT_HOME": str(tmp_path), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    subprocess.run([sys.executable, "-c", _SCRIPT], env=environment, check=True, timeout=120)
