"""The job configuration of a run, and the refusal of deployments that the runner cannot execute."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
from prefect.client.schemas.responses import DeploymentResponse
from prefect.workers.base import BaseJobConfiguration
from pydantic import PrivateAttr

from catchment.errors import Refused


class WarmJobConfiguration(BaseJobConfiguration):
    """The entrypoint of a run, and the resources of its deployment."""

    _of_deployment: dict[str, Any] = PrivateAttr(default_factory=dict)
    _entrypoint: str | None = PrivateAttr(default=None)

    @property
    def of_deployment(self) -> dict[str, Any]:
        """The current job variables of the run's deployment."""
        return self._of_deployment

    @property
    def entrypoint(self) -> str:
        """The flow as `module.function`. Raises Refused for a flow that the runner cannot import."""
        if self._entrypoint is None:
            raise Refused(
                "this pool runs flows of installed modules only (entrypoint `module.function`, no pull steps); "
                "deploy other flows to a work pool of type process"
            )
        return self._entrypoint

    def prepare_for_flow_run(
        self,
        flow_run: FlowRun,
        deployment: DeploymentResponse | None = None,
        flow: Flow | None = None,
        work_pool: WorkPool | None = None,
        worker_name: str | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        """Take the entrypoint and the job variables from the deployment."""
        super().prepare_for_flow_run(flow_run, deployment, flow, work_pool, worker_name, worker_id)
        if deployment is not None:
            self._of_deployment = deployment.job_variables or {}
            is_module = bool(deployment.entrypoint) and ":" not in str(deployment.entrypoint)
            if is_module and not deployment.pull_steps:
                self._entrypoint = deployment.entrypoint
