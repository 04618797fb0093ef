"""The files beside the flows have the content that Prefect would compute by importing them."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from connectors import kinds, version
from flows.flow_form import flow_form
from tests.golden.flows import FORMS, flow_files


def test_files_beside_the_flows_are_current() -> None:
    stale = [str(path) for path, content in flow_files().items() if path.read_text(encoding="utf-8") != content]
    assert stale == [], "if a flow or its settings changed on purpose, run: python -m tests.golden.flows"


@pytest.mark.parametrize("kind", kinds())
def test_the_form_of_a_kind_equals_that_of_prefect(kind: str) -> None:
    recorded = json.loads((FORMS / f"{kind}.json").read_text(encoding="utf-8"))[f"sync_{kind}"]
    assert flow_form(kind) == {**recorded, "version": version(kind)}
    flow = getattr(import_module(f"flows.{kind}"), f"sync_{kind}")
    assert (flow.name, flow.description, flow.version) == (f"sync-{kind}", recorded["description"], version(kind))
