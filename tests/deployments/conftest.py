"""Deployments of the stand-in flow on the shared server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catchment.settings import Home
from deployments.server.running import Running
from deployments.sources.deploy import deploy, undeploy

STANDIN = """\
pull: []
deployments:
  - name: {name}
    entrypoint: tests.deployments.standin_flow.sync_standin
    parameters: {{name: {name}, settings: {{seconds: {seconds}}}}}
    work_pool: {{name: catchment}}
    schedules: {schedules}
"""


@pytest.fixture
def deploy_standin(server_home: Home, server: Running, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Deploy a stand-in; undeployed at the end."""
    names = set()

    def deploy_one(name: str, *, seconds: Any = 0, schedules: str = "[]") -> None:
        file = tmp_path / "prefect.yaml"
        file.write_text(STANDIN.format(name=name, seconds=seconds, schedules=schedules))
        names.add(name)
        deploy(server_home, server, file=file)

    yield deploy_one
    for name in names:
        undeploy(server_home, server, name)
