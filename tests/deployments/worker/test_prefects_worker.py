"""The internals of Prefect's worker that the warm worker uses: each private name that another Prefect version may change."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest
from prefect.workers.base import BaseWorker

from deployments.worker.worker import WarmWorker

_MEND = "compare deployments/worker/worker.py with Prefect's workers/base.py, then correct this table"

OVERRIDDEN = {
    "get_default_base_job_template": [],
    "setup": ["self"],
    "teardown": ["self", "exc_info"],
    "get_and_submit_flow_runs": ["self"],
    "run": ["self", "flow_run", "configuration", "task_status"],
    "kill_infrastructure": ["self", "infrastructure_pid", "configuration", "grace_seconds"],
    "_propose_submitting_state": ["self", "flow_run"],
    "_give_worker_labels_to_flow_run": ["self", "flow_run_id"],
    "_emit_flow_run_submitted_event": ["self", "configuration"],
}
"""The overridden methods, with their parameters."""
USED = {
    "_get_scheduled_flow_runs": ["self"],
    "_submit_scheduled_flow_runs": ["self", "flow_run_response"],
    "_exit_stack": None,
    "_has_successfully_synced": None,
    "_last_polled_time": None,
    "_limit": None,
    "_logger": None,
    "_prefetch_seconds": None,
    "_submitting_flow_run_ids": None,
    "_work_pool_name": None,
}
"""The private names that are read, set or called, with the parameters of methods; None for other attributes."""
CALLED_BY_PREFECT = {
    "_submit_run": ["_propose_pending_state", "_runs_task_group", "_submitting_flow_run_ids"],
    "_submit_run_and_capture_errors": [
        "_propose_submitting_state",
        "_give_worker_labels_to_flow_run",
        "_emit_flow_run_submitted_event",
        "run",
    ],
    "_submit_scheduled_flow_runs": ["_submitting_flow_run_ids", "_submit_run"],
    "_get_scheduled_flow_runs": ["_prefetch_seconds"],
}
"""The places in which Prefect must use the overridden or set names."""


def names_of_self(source: str) -> set[str]:
    """Return the names after `self.` in source code."""
    tree = ast.parse(textwrap.dedent(source))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }


def assigned_to_self(source: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(ast.parse(textwrap.dedent(source)))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }


def test_every_overridden_method_is_listed() -> None:
    methods = {
        name for name, value in vars(WarmWorker).items() if inspect.isfunction(getattr(value, "__func__", value))
    }
    replaced = methods & vars(BaseWorker).keys() - {"__init__"}
    assert replaced == OVERRIDDEN.keys(), _MEND


def test_every_used_private_name_of_prefect_is_listed() -> None:
    source = inspect.getsource(WarmWorker)
    private = {name for name in names_of_self(source) if name.startswith("_")}
    inherited = vars(BaseWorker).keys() | assigned_to_self(inspect.getsource(BaseWorker.__init__))
    ours = vars(WarmWorker).keys() | assigned_to_self(inspect.getsource(WarmWorker.__init__))
    assert private - (ours - inherited) - OVERRIDDEN.keys() == USED.keys(), _MEND


@pytest.mark.parametrize("name", [*OVERRIDDEN, *USED])
def test_prefect_still_has_the_name_unchanged(name: str) -> None:
    wanted = {**OVERRIDDEN, **USED}[name]
    if wanted is None:
        there = names_of_self(inspect.getsource(BaseWorker))
        assert name in there, f"Prefect's worker has no {name} any more: {_MEND}"
        return
    method = getattr(BaseWorker, name, None)
    assert method is not None, f"Prefect's worker has no {name} any more: {_MEND}"
    assert list(inspect.signature(method).parameters) == wanted, f"{name} has other parameters now: {_MEND}"


@pytest.mark.parametrize(("method", "name"), [(m, name) for m, names in CALLED_BY_PREFECT.items() for name in names])
def test_prefect_still_calls_the_overridden_method(method: str, name: str) -> None:
    used = names_of_self(inspect.getsource(getattr(BaseWorker, method)))
    assert name in used, f"{method} of Prefect's worker does not use {name} any more: {_MEND}"
