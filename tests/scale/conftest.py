"""One stack for all tests of several hosts."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scale.stack import PACKAGES, POSTGRES, Stack


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """A running stack, or an error with installation instructions."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:{POSTGRES}"
    missing = [package for program, package in PACKAGES.items() if shutil.which(program, path=path) is None]
    if missing or os.geteuid() != 0:
        problem = f"needs root, and on Debian: apt install {' '.join(missing or PACKAGES.values())}"
        if os.environ.get("CATCHMENT_CI"):
            pytest.fail(problem)
        pytest.skip(problem)
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        stack = Stack(Path(folder))
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()
