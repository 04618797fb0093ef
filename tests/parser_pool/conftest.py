"""A parser pool of two processes, checked for leftover processes and descriptors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from catchment.parser_pool import ParserPool
from tests.parser_pool.processes import leaving_nothing_behind, set_others_apart


@pytest.fixture(autouse=True)
def _set_others_apart() -> None:
    set_others_apart()


@pytest.fixture
def pool() -> Iterator[ParserPool]:
    with leaving_nothing_behind() as pool:
        yield pool
