"""The schema that Prefect computes by importing a flow, stored beside the flow's module for `deployments.sources.definition`.

`python -m tests.golden.flows` writes these files anew, after a flow or the settings of a connector were changed on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from prefect import Flow
from prefect.utilities.callables import parameter_schema

from flows.deliver import deliver
from flows.embed import embed
from flows.github import sync_github
from flows.imap import sync_imap
from flows.local_files import sync_local_files
from flows.obsidian import sync_obsidian
from flows.recognize import recognize
from flows.upkeep import upkeep
from flows.web import sync_web
from tests.deployments.standin_flow import sync_standin

_PROJECT: Final = Path(__file__).parents[2]


def flow_files() -> Mapping[Path, str]:
    """The content of each file."""
    return {
        _PROJECT / f"{flow.fn.__module__.replace('.', '/')}.json": _content(flow)
        for flow in (
            deliver,
            embed,
            recognize,
            sync_github,
            sync_imap,
            sync_local_files,
            sync_obsidian,
            sync_web,
            upkeep,
            sync_standin,
        )
    }


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
