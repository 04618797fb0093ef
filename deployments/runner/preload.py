"""The modules that the runner imports in advance, and whether their files have changed since."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from uuid import UUID

from pydantic import BaseModel

from catchment.runtime.installation import OURS
from connectors import connector_class, kinds, package_of

PREFECT = (
    "prefect.flow_engine",
    "prefect.task_engine",
    "prefect.artifacts",
    # Prefect imports this module only when a flow starts; 40 ms.
    "anyio._backends._asyncio",
    "anyio.streams.tls",
    "encodings.idna",
    "prefect._internal.observers",
    "rich._emoji_codes",
    "fastapi.encoders",
)
_SPOKEN = ("prefect.client.", "prefect.events.", "prefect.artifacts")
_SETTING = "CATCHMENT_PRELOAD"
_DEFAULT = "flows connectors"
_PROJECT = ("catchment", "connectors", "sinks", "tasks", "flows", "deployments", "console")


def requested_modules(package: str = OURS) -> tuple[str, ...]:
    """The modules to import, from `CATCHMENT_PRELOAD`: names separated by spaces. A package includes its modules.

    By default the flows of the kinds of source of the package, and with them the connectors; for ours all flows.
    """
    default = [_DEFAULT if package == OURS else "", *(f"flows.{kind}" for kind in _kinds(package))]
    return tuple(os.environ.get(_SETTING, " ".join(default)).split())


def parser_modules(package: str = OURS) -> tuple[str, ...]:
    """The modules for the parser processes: of the connectors that read their items in one, such as those of folders."""
    readers = (each.__module__ for each in map(connector_class, _kinds(package)) if each.fetch_in_parser)
    return "catchment.content.parsing", *readers


def _kinds(package: str) -> list[str]:
    return [kind for kind in kinds() if package_of(kind) == package]


def load(names: Sequence[str]) -> list[str]:
    """Import the modules, and all modules of the packages. Returns the names that failed; a run that needs one fails itself."""
    failed = []
    for name in names:
        try:
            module = importlib.import_module(name)
            within = pkgutil.iter_modules(getattr(module, "__path__", ()))
            below = [f"{name}.{part.name}" for part in within if part.name != "__main__"]
        except Exception as error:  # noqa: BLE001 - unfinished code raises anything; a run that needs it reports the error
            failed.append(f"{name} ({type(error).__name__})")
        else:
            failed += load(below)
    return failed


def complete_models() -> None:
    """Build the validators of Prefect's API models. Otherwise each run builds those that it uses, in 25 ms."""
    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        if model.__module__.startswith(_SPOKEN):
            # A model that cannot be built yet is built by the run that needs it.
            model.model_rebuild(raise_errors=False)


def silence_runs() -> None:
    """Let runs send no heartbeats: the worker knows which runs live. Each takes a thread and 8 rows in Prefect's database.

    Nor have they a thread and a connection each to hear that they are suspended, which the runner hears for all of them; and
    the lease of their slot, which is new and lasts five minutes, is renewed later.
    """
    from prefect import flow_engine
    from prefect.concurrency import _leases

    renew = _leases._lease_renewal_loop

    def renew_later(lease_id: UUID, lease_duration: float, stop_event: threading.Event) -> None:
        if not stop_event.wait(lease_duration / 2):
            renew(lease_id, lease_duration, stop_event)

    flow_engine.BaseFlowRunEngine.heartbeat_seconds = None  # type: ignore[method-assign, assignment]
    vars(flow_engine)["observe_flow_run_suspension"] = lambda *_: nullcontext()
    _leases._lease_renewal_loop = renew_later


class SourceFiles:
    """The Python files of the preloaded packages and of the project, as they were at the time of creation."""

    def __init__(self, names: Sequence[str]) -> None:
        self._places = tuple(_places({name.partition(".")[0] for name in names} | set(_PROJECT)))
        self._before = self._now()

    def changed(self) -> bool:
        """Whether a file was written, added or removed since then."""
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
            # The folder was removed meanwhile; its files are missing, which counts as a change.
            continue
        for entry in entries:
            if name is None and entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                yield from _files([Path(entry.path)])
            elif entry.name == name or (name is None and entry.name.endswith(".py")):
                try:
                    status = entry.stat()
                except OSError:
                    # The file was removed meanwhile, or is a dangling link (some editors keep one beside a file), or access is
                    # denied.
                    continue
                yield entry, status
