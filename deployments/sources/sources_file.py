"""The sources in `sources.yaml` in the home folder: the format of prefect.yaml with a version, read strictly.

Adding and removing a source edit the text and keep the rest of it, comments included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from catchment.errors import BadInput, ConfigError, NotFound
from catchment.runtime import atomic_files
from catchment.settings import SourceName, SourceSettings
from deployments.server.environment import POOL
from deployments.sources.edits import with_entry, with_value, without_entry
from deployments.sources.prefect_file import (
    Deployment,
    Location,
    Outline,
    PrefectFile,
    Schedule,
    checked,
    complaint,
    outline,
)
from deployments.sources.schedules import local_zone, seconds
from deployments.sources.sources_version import KEY, VERSION, backup, migrated, version_of

SCHEMA = "sources.schema.json"
"""Name of the schema for editors in the folder of the file; `deployments/sources/editor_schema.py` writes it."""
_HEADER = f"""\
# yaml-language-server: $schema={SCHEMA}
# The sources of Catchment, in the format of prefect.yaml. `catchment add` edits this file, and so may you:
# check an edit with `catchment config validate`, then apply it with `catchment up`.
# To deploy them to another Prefect server:
#   prefect work-pool create catchment --type process
#   prefect deploy --all --prefect-file sources.yaml

# The version of the format; a newer Catchment migrates the file and keeps a copy.
version: 2

# Runs use the installed program; there is no code to fetch.
pull: []

deployments: []
"""
_WATCH = "watch"
_QUIET = re.compile(r"watch:(\d{1,4}(?:\.\d{1,3})?)s")
QUIET_AT_MOST = 120.0
_SOURCE = "source"
_MOST_BYTES = 1_000_000
"""Two thousand sources. A file that was replaced by something else must not fill the memory of every process."""


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One source of the file. `paused` applies to its first deployment; later the pause in the UI or by command applies.

    `quiet`: for a watched source, the seconds without a change before its sync, 0 to 120; None: the default.
    `queue`: the work queue of its runs; empty in a home that runs alone.
    """

    name: str
    kind: str
    settings: SourceSettings
    schedules: tuple[Schedule, ...] = ()
    watch: bool = False
    paused: bool = False
    quiet: float | None = None
    queue: str = ""

    @property
    def timing(self) -> str:
        """When it is synced, in words."""
        return timing(self.schedules, self.watch, self.quiet)


def timing(schedules: Sequence[Schedule], watch: bool, quiet: float | None = None) -> str:
    """Return in words when a source is synced."""
    parts = [str(schedule) for schedule in schedules]
    if watch:
        parts.append("on change" if quiet is None else f"{quiet:g} s after a change")
    return ", ".join(parts) or "manual"


class SourcesFile:
    """The file of the sources; `save` writes the additions and removals.

    `file`: the file as Prefect reads it. `entries`: its sources, in the same order.

    A file of an older version is migrated in memory; `save` writes it and keeps a copy of the older file beside it.
    """

    def __init__(self, path: Path, text: str) -> None:
        """Raises ConfigError with the line and the remedy."""
        before = outline(_limited(text, path.name), path.name)
        self._path = path
        self._before = before
        self.file = _checked(migrated(before))
        self.entries = _entries(self.file)

    @classmethod
    def load(cls, path: Path) -> SourcesFile:
        """Read the file, or start a new one. Raises ConfigError with the line and the remedy."""
        try:
            with path.open(encoding="utf-8-sig") as file:
                text = file.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            text = _HEADER
        except UnicodeDecodeError:
            raise ConfigError(f"{path.name} is not UTF-8 text; save it as UTF-8") from None
        except OSError as error:
            raise ConfigError(
                f"{path.name} cannot be read: {error.strerror}; check the disk and the file's owner"
            ) from error
        return cls(path, text)

    @classmethod
    @contextmanager
    def changing(cls, path: Path) -> Iterator[SourcesFile]:
        """Lock and read the file; save it at the end of the block if it was changed or migrated."""
        with atomic_files.alone(path.parent):
            yield (file := cls.load(path))
            if file.file.text != file._before.text:
                file.save()

    def add(self, entry: SourceEntry) -> None:
        """Append a source. Raises BadInput if the name is taken or invalid."""
        try:
            TypeAdapter(SourceName).validate_python(entry.name)
        except ValidationError:
            raise BadInput(
                f"{entry.name!r}: invalid name; use lower-case letters, digits, - and _, starting with a letter or digit"
            ) from None
        if any(known.name == entry.name for known in self.entries):
            raise BadInput(f"{entry.name!r}: already exists; choose another name, or remove that source first")
        self._become(with_entry(self.file, _written(entry)), (*self.entries, entry))

    def adopt(self, written: Mapping[str, Any]) -> SourceEntry:
        """Append a source that is written in the format of the file. Raises ConfigError."""
        (entry,) = _entries(_checked(outline(with_entry(self.file, written), self.file.name)))[len(self.entries) :]
        self._become(with_entry(self.file, written), (*self.entries, entry))
        return entry

    def remove(self, name: str) -> None:
        """Remove a source from the file. Raises NotFound."""
        index = self._index(name)
        rest = tuple(entry for entry in self.entries if entry.name != name)
        self._become(without_entry(self.file, index), rest)

    def change(self, entry: SourceEntry) -> Callable[[SourcesFile], None]:
        """Give the source of this name other settings, schedules and watching. Raises NotFound.

        Returns a function that takes the change back, also in a file that others have edited since.
        """
        index = self._index(entry.name)
        before, original, file = self.entries[index], self.file, cast(Outline, self.file)
        settings = {**entry.settings.model_dump(mode="json"), **_differing(entry.settings)}
        changes: list[tuple[Location, Any]] = [
            (("parameters", "settings", key), settings[key])
            for key in type(entry.settings).model_fields
            if getattr(entry.settings, key) != getattr(before.settings, key)
        ]
        if entry.queue != before.queue:
            changes.append((("work_pool", "work_queue_name"), entry.queue))
        if entry.schedules != before.schedules:
            changes.append((("schedules",), [_schedule(schedule) for schedule in entry.schedules]))
        if (entry.watch, entry.quiet) != (before.watch, before.quiet):
            tags = [tag for tag in self.file.deployments[index].tags if tag.partition(":")[0] != _WATCH]
            changes.append((("tags",), [*tags, *_watch_tag(entry)]))
        for location, value in changes:
            try:
                file = outline(with_value(file, ("deployments", index, *location), value), file.name)
            except ConfigError:
                raise self._uneditable() from None
        self._become(file.text, tuple(entry if known is before else known for known in self.entries))

        def take_back(later: SourcesFile) -> None:
            if later.file.text == file.text:
                later._become(original.text, _entries(original))
            else:
                later.change(before)

        return take_back

    def _index(self, name: str) -> int:
        index = next((index for index, entry in enumerate(self.entries) if entry.name == name), None)
        if index is None:
            raise NotFound(f"{name!r}: no such source; see `catchment sources list`")
        return index

    @property
    def is_older(self) -> bool:
        """Whether the file exists with an older version than this program's."""
        return version_of(self._before) < VERSION and self._path.exists()

    def save(self) -> None:
        """Write the file atomically: after a crash it is the old one or the new one. Raises HomeUnavailable."""
        with atomic_files.explained():
            if self.is_older:
                atomic_files.write(backup(self._path, version_of(self._before)), self._path.read_bytes())
            # The path may be a symbolic link of the user.
            atomic_files.write(self._path.resolve(), self.file.text.encode())
        self._before = self.file

    def _become(self, text: str, expected: tuple[SourceEntry, ...]) -> None:
        """Use the edited text if it parses to the expected entries; that fails if an entry has a YAML anchor."""
        _limited(text, self.file.name)
        try:
            file = _checked(outline(text, self.file.name))
            entries = _entries(file)
        except ConfigError:
            entries = ()
        if entries != expected:
            raise self._uneditable()
        self.file, self.entries = file, entries

    def _uneditable(self) -> ConfigError:
        return ConfigError(f"{self.file.name} cannot be edited by this command as it is written; edit it by hand")


def schedule_of(every: str | None = None, cron: str | None = None, rrule: str | None = None) -> tuple[Schedule, ...]:
    """Return the requested schedule, or none, in this machine's time zone. Raises BadInput with the remedy."""
    if sum(value is not None for value in (every, cron, rrule)) > 1:
        raise BadInput("give one of --every, --cron and --rrule")
    if every is None and cron is None and rrule is None:
        return ()
    # The slug does not depend on the times: a changed schedule keeps its identity and its state in the UI.
    fields: dict[str, Any] = {"slug": "main", "timezone": local_zone(), "cron": cron, "rrule": rrule}
    try:
        fields["interval"] = None if every is None else seconds(every)
        return (Schedule.model_validate(fields),)
    except ValidationError as error:
        raise BadInput(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    except ValueError as error:
        raise BadInput(str(error)) from None


def entrypoint(kind: str) -> str:
    """The flow that syncs sources of this kind."""
    return f"flows.{kind}.sync_{kind}"


def kind_of(flow: str) -> str | None:
    """The kind of source that the flow at an entrypoint syncs, even if no package adds it; None for another flow."""
    kind = flow.rpartition(".sync_")[2]
    return kind if kind.isidentifier() and flow == entrypoint(kind) else None


def _limited(text: str, name: str) -> str:
    if len(text.encode()) > _MOST_BYTES:
        raise ConfigError(f"{name}: larger than {_MOST_BYTES // 1_000_000} MB; remove sources or comments from it")
    return text


def _checked(file: Outline) -> PrefectFile:
    return checked(file, besides=(KEY,))


def _entries(file: PrefectFile) -> tuple[SourceEntry, ...]:
    return tuple(_entry(file, index, deployment) for index, deployment in enumerate(file.deployments))


def _entry(file: PrefectFile, index: int, deployment: Deployment) -> SourceEntry:
    from connectors import connector_class, kinds

    place = ("deployments", index)
    kind = kind_of(deployment.entrypoint)
    if kind is None:
        known = ", ".join(entrypoint(kind) for kind in kinds())
        raise file.error((*place, "entrypoint"), f"not a sync flow; use one of {known}")
    if deployment.work_pool.name != POOL:
        raise file.error((*place, "work_pool", "name"), f"the work pool of a source must be {POOL}")
    try:
        TypeAdapter(SourceName).validate_python(deployment.name)
    except ValidationError:
        raise file.error((*place, "name"), "invalid name; use lower-case letters, digits, - and _") from None
    parameters = deployment.parameters
    for key in parameters:
        if key not in ("name", "settings", "deep"):
            raise file.error((*place, "parameters", key), f"unknown key {key}; the parameters are name, settings, deep")
    if parameters.get("name") != deployment.name:
        raise file.error((*place, "parameters", "name"), "parameters.name differs from name; make them equal")
    model = connector_class(kind).settings
    try:
        settings = model.model_validate(parameters.get("settings", {}))
    except ValidationError as error:
        raise complaint(file, error, model, (*place, "parameters", "settings")) from error
    if kind == "pushed" and settings.model_dump()["folder"] != deployment.name:
        raise file.error((*place, "parameters", "settings", "folder"), "folder differs from name; make them equal")
    watch, quiet = _watching(file, index, deployment.tags)
    return SourceEntry(
        deployment.name,
        kind,
        settings,
        deployment.schedules,
        watch,
        bool(deployment.paused),
        quiet,
        deployment.work_pool.work_queue_name or "",
    )


def _watching(file: PrefectFile, index: int, tags: Sequence[str]) -> tuple[bool, float | None]:
    """Read the tags: `watch`, or `watch:5s` with a quiet period of this source."""
    watch_tags = [tag for tag in tags if tag.partition(":")[0] == _WATCH]
    if not watch_tags or watch_tags == [_WATCH]:
        return bool(watch_tags), None
    match = _QUIET.fullmatch(watch_tags[0])
    if len(watch_tags) > 1 or match is None or float(match[1]) > QUIET_AT_MOST:
        place = ("deployments", index, "tags", tags.index(watch_tags[-1]))
        raise file.error(
            place, f"invalid tag; write watch, or watch:5s for a quiet period of 0 to {QUIET_AT_MOST:.0f} seconds"
        )
    return True, float(match[1])


def _written(entry: SourceEntry) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": entry.name,
        "entrypoint": entrypoint(entry.kind),
        "tags": [_SOURCE, entry.kind, *_watch_tag(entry)],
        "parameters": {"name": entry.name, "settings": _differing(entry.settings)},
    }
    if entry.schedules:
        written["schedules"] = [_schedule(schedule) for schedule in entry.schedules]
    if entry.paused:
        written["paused"] = True
    # One sync of a source at a time; another run waits.
    written["concurrency_limit"] = {"limit": 1, "collision_strategy": "ENQUEUE"}
    written["work_pool"] = {"name": POOL} | ({"work_queue_name": entry.queue} if entry.queue else {})
    return written


def _differing(settings: SourceSettings) -> dict[str, Any]:
    """The settings that differ from their defaults."""
    return settings.model_dump(mode="json", exclude_defaults=True)


def _watch_tag(entry: SourceEntry) -> list[str]:
    if not entry.watch:
        return []
    return [_WATCH if entry.quiet is None else f"{_WATCH}:{entry.quiet:g}s"]


def _schedule(schedule: Schedule) -> dict[str, Any]:
    fields = schedule.model_dump(exclude_none=True)
    if schedule.interval is not None:
        fields["interval"] = int(schedule.interval.total_seconds())
    return fields
