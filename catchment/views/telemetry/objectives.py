"""The objectives of a home, and whether they are kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from catchment.errors import ConfigError
from catchment.ledger import FAILED_OUTCOMES, Ledger, Point
from catchment.runtime.home import Home
from catchment.telemetry import objectives as rules
from catchment.telemetry.catalogue import BOUNDS, QUEUE, SAVE_TO_FOUND, SYNC_DURATION, Metric
from catchment.telemetry.objectives import BACKLOG, CHANGES, DURATION, SYNCS, Events, Objective, ObjectiveState


def settings(home: Home) -> tuple[Objective, ...]:
    """Return the objectives, with the targets and bounds in `alerts.yaml`. Raises ConfigError."""
    file = home.alerts_file
    if not file.exists():
        return rules.OBJECTIVES
    import yaml

    try:
        section = (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("objectives")
    except (OSError, ValueError, AttributeError, yaml.YAMLError) as error:
        problem = f"cannot be read ({type(error).__name__})"
        raise ConfigError(f"{file.name}: {problem}; `catchment config validate` names the line") from None
    try:
        return objectives_in(section)
    except ValueError as error:
        raise ConfigError(f"{file.name}: objectives: {error}") from None


def objectives_in(section: Any) -> tuple[Objective, ...]:
    """Return the objectives, with the targets and bounds in a section such as `syncs: {target: 0.98}`.

    Raises ValueError with the remedy.
    """
    tables = {} if section is None else section
    if not isinstance(tables, Mapping):
        raise ValueError("must name objectives, such as `syncs: {target: 0.98}`")
    known = {objective.name for objective in rules.OBJECTIVES}
    if unknown := next((name for name in tables if name not in known), None):
        raise ValueError(f"{unknown}: no such objective; choose {', '.join(sorted(known))}")
    return tuple(_changed(objective, tables.get(objective.name, {})) for objective in rules.OBJECTIVES)


def objectives(ledger: Ledger, chosen: Iterable[Objective], now: datetime) -> tuple[ObjectiveState, ...]:
    """Return whether each objective is kept."""
    counted = {SYNCS.name: _syncs, DURATION.name: _durations, BACKLOG.name: _backlog, CHANGES.name: _changes}
    return tuple(
        rules.state(objective, list(counted[objective.name](ledger, objective, now)), now) for objective in chosen
    )


def _changed(objective: Objective, fields: object) -> Objective:
    """Return an objective with the settings of its table. Raises ValueError."""
    if not isinstance(fields, Mapping):
        raise ValueError(f"{objective.name}: must have the keys target and above")
    for key, value in fields.items():
        if problem := _problem(objective, key, value):
            raise ValueError(f"{objective.name}.{key}: {problem}")
    return replace(objective, **fields)


def _problem(objective: Objective, key: str, value: Any) -> str | None:
    """Return the problem of a setting with its remedy; None if it is valid."""
    if key not in ("target", "above") or (key == "above" and not objective.above):
        return "no such setting; remove it"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if key == "target":
        return None if 0.5 <= value < 1 else "must be from 0.5 to less than 1, such as 0.95"
    if objective.name == BACKLOG.name:
        return None if value > 0 else "must be greater than 0"
    # Histograms know no other bounds.
    return None if value in BOUNDS else f"unknown bound; choose {', '.join(f'{bound:g}' for bound in BOUNDS)}"


def _points(ledger: Ledger, metric: Metric, now: datetime) -> list[Point]:
    return ledger.measures.points(metric, now - rules.HISTORY, rules.SPAN)


def _syncs(ledger: Ledger, _objective: Objective, now: datetime) -> Iterable[Events]:
    """Yield the syncs, except first syncs and syncs that a person or a limit stopped."""
    for point in _points(ledger, SYNC_DURATION, now):
        if point.labels[0] in ("completed", *FAILED_OUTCOMES):
            yield Events(point.at, point.figure.n if point.labels[0] in FAILED_OUTCOMES else 0, point.figure.n)


def _durations(ledger: Ledger, objective: Objective, now: datetime) -> Iterable[Events]:
    """Yield the completed syncs. Failed syncs are short or long for other reasons."""
    for point in _points(ledger, SYNC_DURATION, now):
        if point.labels[0] == "completed":
            yield Events(point.at, _above(point, objective.above), point.figure.n)


def _changes(ledger: Ledger, objective: Objective, now: datetime) -> Iterable[Events]:
    for point in _points(ledger, SAVE_TO_FOUND, now):
        yield Events(point.at, _above(point, objective.above), point.figure.n)


def _backlog(ledger: Ledger, objective: Objective, now: datetime) -> Iterable[Events]:
    """Yield the spans with their backlog. The jobs of a source count after its first sync, which reads everything."""
    measures, since = ledger.measures, now - rules.HISTORY
    began = {source.id: since for source in ledger.sources.all() if ledger.syncs.last_good(source.id)}
    for point in measures.points(SYNC_DURATION, since, rules.SPAN, apart=True):
        if point.labels[0] == "first" and point.source_id in began:
            began[point.source_id] = point.at + rules.SPAN
    waiting: dict[datetime, float] = defaultdict(float)
    for point in measures.points(QUEUE, since, rules.SPAN, apart=True, whole=True):
        waiting[point.at] += point.figure.total / point.figure.n if began.get(point.source_id, now) <= point.at else 0.0
    for at, jobs in waiting.items():
        yield Events(at, int(jobs >= objective.above), 1)


def _above(point: Point, bound: float) -> int:
    return sum(point.figure.buckets[BOUNDS.index(bound) + 1 :])
