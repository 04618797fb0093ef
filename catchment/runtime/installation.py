"""This installation: the files shipped with the program, its version, and clashes with packages of other programs."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from catchment import __version__

_PARENT = Path(__file__).parents[2]
"""The clone, or the folder of installed packages."""
_SHIPPED = Path(__file__).parents[1] / "shipped"
"""Only in a wheel: setup.py lists its files."""
IS_CLONE: Final = not _SHIPPED.exists()
FILES: Final = _PARENT if IS_CLONE else _SHIPPED
"""Folder of `prefect.yaml`, `requirements.lock`, `docs` and `examples/vault`."""
REINSTALL: Final = "make setup" if IS_CLONE else "install the wheel again, with --constraint constraints.txt"
_PACKAGES = ("assistant", "connectors", "console", "deployments", "flows", "sinks", "tasks", "web")


def version() -> str:
    """Return the versions of the program and of Python and, in a clone, the commit."""
    commit = ""
    # A clone that is not at the top of its repository, or without git, has no commit to name.
    if (_PARENT / ".git").exists():
        import subprocess

        with suppress(OSError):
            described = ["git", "-C", str(_PARENT), "describe", "--always", "--dirty", "--exclude=*"]
            commit = subprocess.run(described, capture_output=True, text=True, check=False).stdout.strip()
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{__version__} ({f'commit {commit}, ' if commit else ''}Python {python})"


def clash() -> str | None:
    """Describe the package of another program that hides or replaced a package of Catchment, with the remedy. Takes 0.3 ms."""
    installed = _installed_sizes()
    for name in _PACKAGES:
        expected = _PARENT / name / "__init__.py"
        spec = find_spec(name)
        origin = spec.origin if spec else None
        if (
            origin != str(expected)
            or installed.get(f"{name}/__init__.py", expected.stat().st_size) != expected.stat().st_size
        ):
            place = f"belongs to another program ({origin})" if origin else "was removed by another program"
            return f"package {name}: {place}; install Catchment into an environment of its own, without PYTHONPATH"
    return None


def _installed_sizes() -> dict[str, int]:
    """The sizes of files as they were installed; empty in a clone."""
    records = _PARENT.glob("catchment-*.dist-info/RECORD")
    lines = [line for record in records for line in record.read_text(encoding="utf-8").splitlines()]
    return {path: int(size) for path, _, size in (line.rsplit(",", 2) for line in lines) if size}
