"""New and changed entries of the sources file, from an operator's input. Writes no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_origin

from pydantic import ValidationError

from catchment.errors import BadInput, did_you_mean
from catchment.settings import SourceSettings, explain
from connectors import connector_class
from deployments.sources.prefect_file import Schedule
from deployments.sources.sources_file import QUIET_AT_MOST, SourceEntry, schedule_of

Settings = TypeVar("Settings", bound=SourceSettings)

_FALLBACK = "15m"


@dataclass(frozen=True, slots=True)
class Timing:
    """When and where a source is synced, as typed. None leaves a part as it is, or without a schedule for a new source.

    Give one of `every` ("15m"), `cron` and `rrule`. `debounce`: seconds without a change before the sync of a watched source.
    `on`: this host or `any`, for a new source of a joined host.
    """

    every: str | None = None
    cron: str | None = None
    rrule: str | None = None
    watch: bool | None = None
    debounce: float | None = None
    on: str | None = None


def prepare(kind: str, location: str, name: str, options: Mapping[str, Any], timing: Timing) -> SourceEntry:
    """Return a new source. Raises BadInput."""
    connector = connector_class(kind)
    if not location.strip():
        # An empty path would mean the current folder.
        raise BadInput("LOCATION: empty; see `catchment add --help`")
    if kind == "pushed":
        if location != name:
            raise BadInput(f"LOCATION: its documents are kept in the home; give its name: {name}")
        timing = replace(timing, watch=True)
    located = connector.settings.located(location)
    joined = {}
    for key in located.keys() & options.keys():
        if not isinstance(located[key], tuple) or not isinstance(options[key], list):
            raise BadInput(f"{key}: already given by LOCATION; remove --set {key}=…")
        joined[key] = [*located[key], *options[key]]
    settings = typed(connector.settings, {**options, **located, **joined})
    return _timed(SourceEntry(name, kind, settings), timing)


def revise(entry: SourceEntry, options: Mapping[str, Any], timing: Timing) -> SourceEntry:
    """Return a source with some settings replaced; a group such as `limits` keeps its other keys. Raises BadInput."""
    present = entry.settings.model_dump(mode="json", exclude_defaults=True)
    return _timed(replace(entry, settings=typed(type(entry.settings), _merged(present, options))), timing)


def typed(model: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Validate settings. For a list, a single text stands for one element and an empty text for none; None for the default.

    Raises BadInput with the name of the setting, and a similar name if it is unknown.
    """
    lists = [name for name, field in model.model_fields.items() if get_origin(field.annotation) is tuple]
    single = {name: (text,) if text else () for name in lists if isinstance(text := values.get(name), str)}
    defaults = {name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()}
    present = {
        name: value for name, value in {**values, **single}.items() if value is not None or defaults.get(name) is None
    }
    try:
        return model.model_validate(present)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            choices = sorted(model.model_fields)
            hint = did_you_mean(name, choices, f"choose from {', '.join(choices)}")
            hint = "see docs/settings.md" if "." in name else hint
            raise BadInput(f"{name}: unknown setting; {hint}") from None
        raise BadInput(f"{name or 'settings'}: {explain(first)}") from None


def _timed(entry: SourceEntry, timing: Timing) -> SourceEntry:
    watch = entry.watch if timing.watch is None else timing.watch
    if watch and not connector_class(entry.kind).manifest.is_watched:
        raise BadInput(f"--watch: {entry.kind} sources announce no changes; use --every 15m")
    if timing.debounce is not None and not watch:
        raise BadInput("--debounce: only for watched sources; add --watch")
    if timing.debounce is not None and not 0 <= timing.debounce <= QUIET_AT_MOST:
        raise BadInput(f"--debounce: out of range; use 0 to {QUIET_AT_MOST:g} seconds")
    quiet = (entry.quiet if watch else None) if timing.debounce is None else round(timing.debounce, 3)
    schedules: tuple[Schedule, ...] = schedule_of(timing.every, timing.cron, timing.rrule) or entry.schedules
    if timing.watch and not schedules:
        schedules = schedule_of(_FALLBACK)  # finds changes that the system did not report
    return replace(entry, schedules=schedules, watch=watch, quiet=quiet)


def _merged(present: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    result = {**present, **changes}
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(inner := present.get(key), Mapping):
            result[key] = _merged(inner, value)
    return result
