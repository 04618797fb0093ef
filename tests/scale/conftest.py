"""One stack for all tests of several hosts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scale.stack import Stack


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """A running stack."""
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        stack = Stack(Path(folder))
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()
