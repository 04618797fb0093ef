"""Prefect's own server, worker and commands with the deployments of this project, as docs/install.md shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.prefects_tools import carried_out

pytestmark = [pytest.mark.acceptance, pytest.mark.long]


def test_every_documented_command_of_prefects_own_tools_works(tmp_path: Path) -> None:
    with carried_out(tmp_path) as (_, commands):
        assert commands > 10
