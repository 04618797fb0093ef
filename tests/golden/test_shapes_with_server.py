"""The home of version 0.1 in a running system: it deploys and syncs its sources, and its JSON has the recorded shapes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden.record import SERVED_CALLS, SERVED_SHAPES, differences, run_process, serving, shape_of_output, unpack

pytestmark = [pytest.mark.acceptance, pytest.mark.long]


def test_json_shapes_of_old_home_with_server_are_as_recorded(tmp_path: Path) -> None:
    recorded = json.loads(SERVED_SHAPES.read_text(encoding="utf-8"))
    with serving(unpack(tmp_path)):
        shapes = {call: shape_of_output(tmp_path, call, run_process) for call in SERVED_CALLS}
    assert differences(recorded, shapes) == [], "if this was on purpose, run: python -m tests.golden"
    assert run_process(tmp_path / "home", "ledger", "check", "--deep").code == 0
