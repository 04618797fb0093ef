"""Fixtures for the example packages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connectors.contract.memory_ledger import MemoryLedger
from tests.examples.packages import register
from tests.outside_packages import site_of


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture(autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The example packages are installed."""
    with site_of(tmp_path_factory.mktemp("site")) as site:
        register(site)
        yield
