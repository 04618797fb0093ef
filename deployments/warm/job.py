"""What a run gets: its environment, a working folder, and where its output goes."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
from prefect.client.schemas.responses import DeploymentResponse
from prefect.workers.base import BaseJobConfiguration
from pydantic import PrivateAttr


class WarmJobConfiguration(BaseJobConfiguration):
    """The environment of the worker and that of the run, a working folder, and where its output goes."""

    stream_output: bool = True
    working_dir: Path | None = None
    _of_deployment: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def of_deployment(self) -> dict[str, Any]:
        """The job variables of the run's deployment, as they are now."""
        return self._of_deployment

    def prepare_for_flow_run(
        self,
        flow_run: FlowRun,
        deployment: DeploymentResponse | None = None,
        flow: Flow | None = None,
        work_pool: WorkPool | None = None,
        worker_name: str | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        """Fill in what depends on the run; a command that was configured is kept, else Prefect's engine is run."""
        command = self.command
        super().prepare_for_flow_run(flow_run, deployment, flow, work_pool, worker_name, worker_id)
        self.command = command
        self.env = {**os.environ, **self.env}
        if deployment is not None:
            self._of_deployment = deployment.job_variables or {}
            if not deployment.pull_steps and deployment.entrypoint and ":" not in deployment.entrypoint:
                # A module: the run can import it at once and need not ask the server where it is.
                self.env["PREFECT__FLOW_ENTRYPOINT"] = deployment.entrypoint

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """Where the run begins: what was set, or a folder that is there as long as the run."""
        if self.working_dir:
            yield str(self.working_dir)
            return
        with tempfile.TemporaryDirectory(suffix="prefect", ignore_cleanup_errors=True) as folder:
            yield folder
