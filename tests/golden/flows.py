"""The schema that Prefect computes by importing a flow, stored beside the flow's module for `deployments.sources.definition`.

Those of the sources are computed there, and stored in tests/golden/forms to compare.

`python -m tests.golden.flows` writes these files anew, after a flow or the settings of a connector were changed on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from prefect import Flow
from prefect.utilities.callables import parameter_schema

from connectors import kinds
from flows.deliver import deliver
from flows.embed import embed
from flows.recognize import recognize
from flows.source_flow import source_flow
from flows.upkeep import upkeep
from tests.deployments.standin_flow import sync_standin

_PROJECT: Final = Path(__file__).parents[2]
FORMS: Final = Path(__file__).parent / "forms"


def flow_files() -> Mapping[Path, str]:
    """The content of each file."""
    beside = {
        _PROJECT / f"{flow.fn.__module__.replace('.', '/')}.json": _content(flow)
        for flow in (deliver, embed, recognize, upkeep, sync_standin)
    }
    return beside | {FORMS / f"{kind}.json": _content(source_flow(kind)) for kind in kinds()}


def _content(flow: Flow[..., object]) -> str:
    interface = {
        "name": flow.name,
        "description": flow.description,
        "parameter_schema": parameter_schema(flow).model_dump(exclude_unset=True),
    }
    return json.dumps({flow.fn.__name__: interface}, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    for path, content in flow_files().items():
        path.write_text(content, encoding="utf-8")
