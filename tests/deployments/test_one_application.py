"""The server makes Prefect's application once, and lists the time zones once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_SHARES = """
import zoneinfo

listed = []
zones = zoneinfo.available_timezones
zoneinfo.available_timezones = lambda: listed.append(1) or zones()

from deployments.server.app import made_once

app = made_once()
from prefect.server.api.clients import OrchestrationClient
from prefect.server.schemas.schedules import IntervalSchedule

assert OrchestrationClient()._http_client._transport.app is app
IntervalSchedule(interval=60, timezone="Europe/Berlin")
listed.clear()
IntervalSchedule(interval=60, timezone="Europe/Berlin")
assert not listed
"""


@pytest.mark.full
def test_clients_in_the_server_share_its_application(tmp_path: Path) -> None:
    environment = {"PREFECT_HOME": str(tmp_path), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    subprocess.run([sys.executable, "-c", _SHARES], env=environment, check=True, timeout=120)
