"""This installation: the files shipped with the program, its version, what other packages add to it, and clashes with them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from catchment import __version__
from catchment.errors import BadInput, Refused

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

_PARENT = Path(__file__).parents[2]
"""The clone, or the folder of installed packages."""
_SHIPPED = Path(__file__).parents[1] / "shipped"
"""Only in a wheel: setup.py lists its files."""
IS_CLONE: Final = not _SHIPPED.exists()
FILES: Final = _PARENT if IS_CLONE else _SHIPPED
"""Folder of `prefect.yaml`, `requirements.lock`, `docs`, `examples/connector` and `examples/vault`."""
REINSTALL: Final = "make setup" if IS_CLONE else "install the wheel again, with --constraint constraints.txt"
CONNECTORS: Final = "catchment.connectors"
SINKS: Final = "catchment.sinks"
READERS: Final = "catchment.readers"
"""The groups of entry points by which packages add to Catchment."""
CONTRACT: Final = 1
"""The version of `catchment.contracts`. A class for another version states it: `contract = 2`."""
OURS: Final = "catchment"
"""The name of our own package."""
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
            from importlib.metadata import packages_distributions

            others = ", ".join({*packages_distributions().get(name, ())} - {OURS})
            place = f"belongs to another program ({others or origin})" if origin else "was removed by another program"
            remedy = f"{f'uninstall {others}, or ' if others else ''}install Catchment into an environment of its own"
            return f"package {name}: {place}; {remedy}, without PYTHONPATH"
    return None


def _installed_sizes() -> dict[str, int]:
    """The sizes of files as they were installed; empty in a clone."""
    records = _PARENT.glob("catchment-*.dist-info/RECORD")
    lines = [line for record in records for line in record.read_text(encoding="utf-8").splitlines()]
    return {path: int(size) for path, _, size in (line.rsplit(",", 2) for line in lines) if size}


@dataclass(frozen=True, slots=True)
class Extension:
    """What a package adds to Catchment by an entry point. Ours are registered the same way.

    `problem`: why it is refused, with the remedy; "" if it is not.
    """

    point: EntryPoint
    package: str
    version: str
    problem: str

    def load(self) -> Any:
        """Import and return its class, or a reader. Raises BadInput if an extra is missing, Refused if it cannot be used."""
        if self.problem:
            raise Refused(self.problem)
        name = f"{self.point.name}: {self.package}"
        try:
            loaded = self.point.load()
            loaded = loaded() if self.point.group == READERS else loaded
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a package of others may raise anything
            if isinstance(error, ModuleNotFoundError) and (extras := ",".join(self.point.extras)):
                raise BadInput(f'{error.name}: not installed; run: pip install "{self.package}[{extras}]"') from None
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise Refused(f"{name} cannot be loaded ({reason}); upgrade or uninstall it") from None
        if (version := getattr(loaded, "contract", 1)) != CONTRACT:
            versions = f"version {version} of the contract, and Catchment has version {CONTRACT}"
            raise Refused(f"{name} is made for {versions}; install versions that match")
        return loaded

    def refusal(self) -> str | None:
        """Return why its class cannot be used, with the remedy; None if it can, or lacks only an extra."""
        try:
            self.load()
        except BadInput:
            return None
        except Refused as error:
            return str(error)
        return None


@cache
def installed(group: str) -> tuple[Extension, ...]:
    """Return the extensions of a group, ours first."""
    added: list[Extension] = []
    points = [(point.dist.name, point.dist, point) for point in entry_points()[group] if point.dist]
    for package, distribution, point in sorted(points, key=lambda each: (each[0] != OURS, each[0])):
        names = set() if package == OURS else {point.module.partition(".")[0], *_top_level(distribution)}
        others = [other.package for other in added if other.point.name == point.name]
        problem = ""
        if names := names & {OURS, *_PACKAGES}:
            problem = (
                f"{point.name}: {package} brings the package {min(names)}, a name of Catchment; uninstall {package}"
            )
        elif others:
            problem = f"{point.name}: {package} adds what {others[0]} adds; uninstall {package}"
        added.append(Extension(point, package, distribution.version, problem))
    return tuple(added)


@cache
def entry_points() -> Mapping[str, Collection[EntryPoint]]:
    """Return our entry points by group, scanned once in a process: a scan reads all installed packages."""
    from importlib import metadata

    points = metadata.entry_points()
    return {group: points.select(group=group) for group in (CONNECTORS, SINKS, READERS)}


def extensions(group: str) -> Mapping[str, Extension]:
    """Return the extensions of a group by name. Of two with the same name, the first is used."""
    by_name = {extension.point.name: extension for extension in reversed(installed(group))}
    return dict(reversed(by_name.items()))


def _top_level(package: Distribution) -> Iterator[str]:
    """Return the names that a package can be imported by."""
    for file in package.files or ():
        yield file.parts[0].removesuffix(".py")
    # Instead of the files, if the package is installed in place.
    yield from (package.read_text("top_level.txt") or "").split()
