"""The task that brings a sink up to date. A failure puts the next delivery off, so a sink that is away delays only itself."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from prefect import task
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

import sinks
from catchment.errors import NotFound, SinkUnavailable
from catchment.ledger import Ledger
from catchment.settings import Home
from catchment.sync import supply
from catchment.sync.supply import DeliveryCounts
from tasks.activity import Activity, registered
from tasks.redacted_errors import in_thread
from tasks.report import name_run
from tasks.run_states import CANCELLED, COMPLETED, FAILED, SKIPPED


@task(name="deliver-documents", task_run_name="deliver to {name}", persist_result=False)
async def deliver_documents(name: str) -> State[Any]:
    """Bring a sink up to date. Ends `Skipped` if the sink was removed or is paused, `Failed` if it is away."""
    work = _Delivery(flow_run.id)
    with registered(work):
        state = await in_thread(_deliver, name, work)
    await name_run(f"{name}: {work.counts}" if state.name == COMPLETED.name else f"{name}: {str(state.name).lower()}")
    return state


def _deliver(name: str, work: _Delivery) -> State[Any]:
    home = Home.default()
    try:
        with closing(Ledger.inspect(home)) as ledger:
            if name not in ledger.outbox.due():
                return SKIPPED.because("Nothing to do, or the sink is paused, removed or to be tried later")
            with supply.alone(home, ledger.outbox.get(name)):
                supply.deliver(ledger, name, sinks.opened, lambda: not work.stopped, work.counts)
    except NotFound:
        return SKIPPED.because("The sink was removed")
    except SinkUnavailable as error:
        return FAILED.because(f"{name}: {error}")
    if work.stopped:
        return CANCELLED.because(f"Stopped: {work.stopped}; the next run continues")
    return COMPLETED.because(str(work.counts))


@dataclass(eq=False, slots=True)
class _Delivery(Activity):
    """The work of a run. It stops between two batches."""

    counts: DeliveryCounts = field(default_factory=DeliveryCounts)
