"""The checks of `catchment check` on the machine: inotify limits, disks, clocks, disk usage, versions and the port."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from catchment.errors import CatchmentError, SchemaMismatch, TryAgain
from catchment.ledger import Ledger, SyncRow
from catchment.runtime.home import Home
from catchment.runtime.installation import FILES, REINSTALL
from catchment.runtime.membership import Membership
from catchment.runtime.system.disks import network_disk
from catchment.telemetry.incidents import FAIL, OK, WARN, Condition
from catchment.views.health import size_of, space
from connectors.local_files import FolderSettings
from deployments.server.client import api
from deployments.server.environment import TRIED_PREFECT, is_tried
from deployments.server.ports import is_free, kept_port
from deployments.server.running import Running
from deployments.sources.sources_file import SourceEntry
from deployments.watch.rules import FolderRules

_COUNTED_SECONDS = 5.0
_SKEW = 2.0
"""Seconds that two clocks may differ: some file systems store whole seconds."""
_LARGE_WAL = 1_000_000_000
_LARGE_PREFECT = 2_000_000_000
_RENEW = f"{REINSTALL}; catchment down; catchment up --detach"
_SET_CLOCK = "sudo timedatectl set-ntp true"


def inotify(needed: int, watched: int, used: int, instances: int, limits: Mapping[str, int]) -> Condition:
    """Whether this user may watch every folder of the watched sources.

    `needed`: folders of the sources, of which the watcher watches `ours`. `used` and `instances`: the inotify watches and
    instances of this user in all. `limits`: the system's `max_user_watches` and `max_user_instances`.
    """
    watches, most = limits.get("max_user_watches"), limits.get("max_user_instances")
    if watches is None or most is None:
        return Condition("inotify", OK, "inotify is not available; only schedules find changes")
    others = max(0, used - watched)
    if needed + others > watches:
        enough = 1 << (2 * (needed + others)).bit_length()
        problem = (
            f"{needed} folders to watch and {others} watched by other programs, but the limit of this user is {watches}"
        )
        return Condition("inotify", WARN, problem, f"sudo sysctl fs.inotify.max_user_watches={enough}")
    if instances >= most and not watched:
        problem = f"all {most} inotify instances of this user are in use"
        return Condition("inotify", WARN, problem, f"sudo sysctl fs.inotify.max_user_instances={4 * most}")
    return Condition("inotify", OK, f"{needed} watches needed, {others} used by other programs, limit {watches}")


def folders(home: Home, entries: Iterable[SourceEntry]) -> int:
    """Number of folders in the watched sources. Stops counting after five seconds."""
    deadline = time.monotonic() + _COUNTED_SECONDS
    counted = 0
    for entry in entries:
        settings = entry.settings
        if not entry.watch or not isinstance(settings, FolderSettings):
            continue
        for _ in _watched(settings.root, FolderRules(entry.kind, settings, home)):
            counted += 1
            if time.monotonic() > deadline:
                return counted
    return counted


def _watched(root: Path, rules: FolderRules) -> Iterator[None]:
    for folder, inner, _ in os.walk(root):
        yield
        relative = os.path.relpath(folder, root)
        above = "" if relative == "." else f"{relative}/"
        inner[:] = [name for name in inner if rules.watches(above + name)]


def disks(home: Home, entries: Iterable[SourceEntry]) -> list[Condition]:
    """Whether the home, or a watched source without a schedule, is on a network disk."""
    conditions = []
    if kind := network_disk(home.path):
        problem = f"the home folder is on {kind}, where databases get damaged"
        remedy = "catchment down; move the home folder to a local disk and set CATCHMENT_HOME"
        conditions.append(Condition("disks", FAIL, problem, remedy))
    for entry in entries:
        if not isinstance(entry.settings, FolderSettings) or not entry.watch or entry.schedules:
            continue
        if kind := network_disk(entry.settings.root):
            problem = f"{entry.name} is on {kind}, which does not report changes by other computers"
            remedy = f"add a schedule: catchment sources remove {entry.name}, then add it with --every 15m --watch"
            conditions.append(Condition("disks", WARN, problem, remedy))
    return conditions or [
        Condition("disks", OK, "the home folder and the watched sources are on disks that report changes")
    ]


def clocks(home: Home, state: Running | None) -> Condition:
    """Whether the clocks of this process, the home's disk and the server agree, and the clock was not set back."""
    try:
        with tempfile.NamedTemporaryFile(dir=home.run) as file:
            skew = os.fstat(file.fileno()).st_mtime - time.time()
    except FileNotFoundError:
        skew = 0.0  # The home does not exist yet.
    except OSError as error:
        problem = f"the disk of the home folder cannot be written: {error.strerror}"
        return Condition("clock", FAIL, problem, "make room, or restore write permission")
    if abs(skew) > _SKEW:
        problem = f"the clock of the disk differs by {skew:+.0f} s; changed files may seem unchanged"
        return Condition("clock", WARN, problem, f"{_SET_CLOCK}, here and on the computer with the disk")
    if state is not None and abs(skew := _server_skew(state)) > _SKEW:
        problem = f"the clock of the server differs by {skew:+.0f} s; runs start at the wrong time"
        return Condition("clock", WARN, problem, f"{_SET_CLOCK}; catchment down; catchment up --detach")
    if (ahead := _ahead(home)) > _SKEW:
        problem = f"the last sync started {ahead:.0f} s in the future: the clock was set back, or is wrong"
        return Condition("clock", WARN, problem, _SET_CLOCK)
    return Condition("clock", OK, "the clocks of this machine, its disk and the server agree")


def _server_skew(state: Running) -> float:
    """Seconds that the server's clock is ahead, in whole seconds; 0 if its response has no date."""
    with contextlib.suppress(TryAgain), api(state) as client:
        if date := client.get("/health").headers.get("date"):
            return (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
    return 0.0


def _ahead(home: Home) -> float:
    """Seconds from now until the start of the newest sync; negative if it started in the past."""
    latest = Ledger.ask(home, lambda ledger: ledger.syncs.recent(limit=1), list[SyncRow]())
    return max(((sync.began - datetime.now(UTC)).total_seconds() for sync in latest), default=0.0)


def growth(home: Home) -> list[Condition]:
    """Whether the databases, the cache or the logs are too large for their disk. The last condition lists all sizes."""
    sizes = space(home)
    there = next(folder for folder in (home.path, *home.path.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    conditions = []
    for name, file in (("ledger", home.path / "ledger.db-wal"), ("Prefect", home.prefect / "prefect.db-wal")):
        if size_of([file]) > _LARGE_WAL:
            problem = (
                f"the write-ahead log of {name}'s database has {size_of([file]) / 1e9:.1f} GB: a reader never finishes"
            )
            conditions.append(Condition("growth", WARN, problem, "catchment down; catchment up --detach"))
    if sizes["Prefect"] > _LARGE_PREFECT:
        problem = f"Prefect's data has {sizes['Prefect'] / 1e9:.1f} GB; the daily clean-up should keep it smaller"
        conditions.append(
            Condition("growth", WARN, problem, "run `upkeep` in the Prefect UI, and check its recent runs")
        )
    if sizes["cache"] > max(free, _LARGE_WAL):
        remedy = f"catchment down; rm {home.cache.name}* in the home folder; catchment up --detach"
        conditions.append(Condition("growth", WARN, "the cache is larger than the free space", remedy))
    largest = sorted(sizes.items(), key=lambda part: -part[1])
    listed = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in largest if size)
    return [*conditions, Condition("growth", OK, f"{listed}; {free / 1e9:.1f} GB free")]


def versions(home: Home) -> list[Condition]:
    """Whether the installed packages have the required and tested versions, and the ledger fits this program."""
    conditions = []
    try:
        Ledger.inspect(home).close()
    except SchemaMismatch as error:
        conditions.append(Condition.of_error("versions", error))
    except CatchmentError:
        # `catchment check` reports other problems of the ledger.
        pass
    conditions += (of_prefect := prefect_version())
    locked = _locked()
    for name, needed in _needed().items():
        if name == "prefect" and of_prefect:
            continue
        try:
            installed = version(name)
        except PackageNotFoundError:
            installed = "none"
        if installed == "none" or installed not in needed.specifier:
            problem = f"{name} {installed} is installed, but {needed.specifier} is required"
            conditions.append(Condition("versions", FAIL, problem, _RENEW))
        elif locked.get(name, installed) != installed:
            problem = f"{name} {installed} is installed, but {locked[name]} was tested"
            conditions.append(Condition("versions", WARN, problem, _RENEW))
    return conditions or [Condition("versions", OK, f"Prefect {version('prefect')}, and all other requirements")]


def prefect_version() -> list[Condition]:
    """Report an untested version of Prefect: the server and the worker do not change the internals of such a version."""
    if is_tried(installed := version("prefect")):
        return []
    problem = f"Prefect {installed} is installed, but {TRIED_PREFECT} was tested: changes are synced seconds later"
    return [Condition("versions", FAIL, problem, _RENEW)]


def _needed() -> dict[str, Requirement]:
    parsed = (Requirement(line) for line in requires("catchment") or ())
    return {each.name: each for each in parsed if each.marker is None or each.marker.evaluate({"extra": ""})}


def _locked() -> dict[str, str]:
    """The versions pinned for this Python."""
    lines = (FILES / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = (Requirement(line.removesuffix("\\")) for line in lines if line[:1].isalnum())
    return {
        pin.name: spec.version for pin in pins if pin.marker is None or pin.marker.evaluate() for spec in pin.specifier
    }


def port(home: Home, is_up: bool, others: Mapping[Path, Any]) -> Condition:
    """Whether another program uses this home's port. `others` are the other homes with running processes."""
    if membership := Membership.of(home):
        return Condition("port", OK, f"none needed: the Prefect server is at {membership.server}")
    number = kept_port(home)
    if number is None:
        return Condition("port", OK, "none assigned yet; a free port will be used")
    if is_up or is_free(number):
        return Condition("port", OK, f"port {number} is in use by this home" if is_up else f"port {number} is free")
    if any(kept_port(Home(other)) == number for other in others):
        problem = f"port {number}, last used by this home, is in use by Catchment with another home"
    else:
        problem = f"port {number}, last used by this home, is in use by another program"
    return Condition("port", WARN, problem, "catchment up --detach uses a free port; or choose one with --port")
