"""A sandbox of two workers, and the proof that it leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from catchment.sandbox import Sandbox
from tests.sandbox.surroundings import leaving_nothing_behind, set_others_apart


@pytest.fixture(autouse=True)
def _set_others_apart() -> None:
    set_others_apart()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with leaving_nothing_behind() as sandbox:
        yield sandbox
