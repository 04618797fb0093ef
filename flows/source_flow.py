"""The sync flow of each kind of source."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

from prefect import Flow, flow
from prefect.client.schemas.objects import State

from flows.flow_form import flow_form, parameters
from flows.sync import bring_up_to_date


def source_flow(kind: str) -> Flow[..., Any]:
    """Return the flow of a kind. Prefect reads its signature and docstring as those of any function."""

    async def sync(**arguments: Any) -> State | dict[str, int]:
        return await bring_up_to_date(kind, **arguments)

    form = flow_form(kind)
    sync.__name__ = sync.__qualname__ = f"sync_{kind}"
    sync.__module__ = f"flows.{kind}"
    sync.__doc__ = form["description"]
    vars(sync)["__signature__"] = Signature(
        [
            Parameter(
                name, Parameter.KEYWORD_ONLY, annotation=type_, default=Parameter.empty if value is ... else value
            )
            for name, (type_, value, _) in parameters(kind).items()
        ]
    )
    decorate = flow(
        name=form["name"], version=form["version"], flow_run_name="{name}: syncing", retries=0, persist_result=False
    )
    return decorate(sync)
