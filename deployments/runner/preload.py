"""The code that the runner has imported before a run needs it, and whether its files have changed since."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel

PREFECT = (
    "prefect.flow_engine",
    "prefect.task_engine",
    "prefect.artifacts",
    # What Prefect imports only when a flow begins; 40 ms.
    "anyio._backends._asyncio",
    "anyio.streams.tls",
    "encodings.idna",
    "prefect._internal.observers",
    "rich._emoji_codes",
)
_SPOKEN = ("prefect.client.", "prefect.events.", "prefect.artifacts")
_SETTING = "CATCHMENT_PRELOAD"
_DEFAULT = "flows connectors fastapi.encoders"
_PROJECT = ("catchment", "connectors", "tasks", "flows", "deployments", "console")


def wanted() -> tuple[str, ...]:
    """The modules to import, from the setting `CATCHMENT_PRELOAD`: names with spaces between; a package means all in it."""
    return tuple(os.environ.get(_SETTING, _DEFAULT).split())


def load(names: Sequence[str]) -> list[str]:
    """Import the modules and what is below them; what cannot be imported is named, and left to the runs that need it."""
    failed = []
    for name in names:
        try:
            module = importlib.import_module(name)
            within = pkgutil.iter_modules(getattr(module, "__path__", ()))
            below = [f"{name}.{found.name}" for found in within if found.name != "__main__"]
        except Exception as error:  # noqa: BLE001 - code that is being edited raises anything; its run will tell in full
            failed.append(f"{name} ({type(error).__name__})")
        else:
            failed += load(below)
    return failed


def complete_models() -> None:
    """Make the validators of what Prefect sends and gets; else each run makes anew those that it uses, in 25 ms."""
    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        if model.__module__.startswith(_SPOKEN):
            # One that cannot be made yet is left to the run that needs it.
            model.model_rebuild(raise_errors=False)


class SourceFiles:
    """The Python files of the preloaded packages and of the project, as they were when this was made."""

    def __init__(self, names: Sequence[str]) -> None:
        self._places = tuple(_places({name.partition(".")[0] for name in names} | set(_PROJECT)))
        self._before = self._now()

    def changed(self) -> bool:
        """Whether a file was written, added or removed since."""
        return self._now() != self._before

    def _now(self) -> dict[str, tuple[int, int]]:
        return {file.path: (status.st_mtime_ns, status.st_size) for file, status in _files(self._places)}


def _places(names: set[str]) -> Iterator[Path]:
    for name in sorted(names):
        spec = None if name in sys.builtin_module_names else importlib.util.find_spec(name)
        if spec is not None:
            yield from (Path(place) for place in spec.submodule_search_locations or filter(None, [spec.origin]))


def _files(places: Sequence[Path]) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    for place in places:
        folder, name = (place, None) if place.is_dir() else (place.parent, place.name)
        try:
            entries = list(os.scandir(folder))
        except OSError:
            # It was removed meanwhile: then its files are missing, which is a change.
            continue
        for entry in entries:
            if name is None and entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                yield from _files([Path(entry.path)])
            elif entry.name == name or (name is None and entry.name.endswith(".py")):
                try:
                    status = entry.stat()
                except OSError:
                    # It was removed meanwhile, or is a link to nothing, such as some editors keep beside a file, or to where
                    # this user may not look.
                    continue
                yield entry, status
