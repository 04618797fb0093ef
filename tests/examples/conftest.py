"""Fixtures for the example packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from catchment.runtime import installation
from connectors import connector_class
from connectors.contract.memory_ledger import MemoryLedger
from flows.flow_form import flow_form
from tests.examples.packages import register


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture(autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example packages are installed; what was found before is forgotten, and afterwards again."""
    site: Path = tmp_path_factory.mktemp("site")
    register(site)
    monkeypatch.syspath_prepend(str(site))
    caches = (installation.entry_points, installation.installed, connector_class, flow_form)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()
