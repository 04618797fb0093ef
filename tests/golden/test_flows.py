"""The files beside the flows have the content that Prefect would compute by importing them."""

from __future__ import annotations

from connectors import kinds
from tests.golden.flows import flow_files


def test_files_beside_the_flows_are_current() -> None:
    stale = [str(path) for path, content in flow_files().items() if path.read_text(encoding="utf-8") != content]
    assert stale == [], "if a flow or its settings changed on purpose, run: python -m tests.golden.flows"


def test_each_kind_of_source_has_a_file() -> None:
    assert {f"flows/{kind}.json" for kind in kinds()} <= {"/".join(path.parts[-2:]) for path in flow_files()}
