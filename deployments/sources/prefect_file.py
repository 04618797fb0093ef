"""The format of prefect.yaml, read strictly: mistakes that Prefect ignores are errors with their line.

Prefect ignores an unknown key, skips a whole file that does not validate, and still exits with code 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, get_args

import yaml
from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from catchment.errors import ConfigError, did_you_mean
from catchment.model import in_words
from catchment.settings import Strict, explain
from deployments.sources.schedules import LONGEST, SHORTEST, check_cron, check_rrule, check_zone

Location = tuple[int | str, ...]
Steps = list[dict[str, Any]] | None


class Schedule(Strict):
    """When a deployment runs. The slug is its identity, by which a deploy keeps its state in the UI."""

    cron: Annotated[str, AfterValidator(check_cron)] | None = None
    interval: Annotated[timedelta, Field(ge=timedelta(seconds=SHORTEST), le=timedelta(seconds=LONGEST))] | None = None
    rrule: Annotated[str, AfterValidator(check_rrule)] | None = None
    timezone: Annotated[str, AfterValidator(check_zone)]
    slug: Annotated[str, Field(min_length=1)]
    anchor_date: str | None = None
    active: bool | None = None
    parameters: dict[str, Any] | None = None
    day_or: bool | None = None
    replaces: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Schedule:
        if sum(value is not None for value in (self.cron, self.interval, self.rrule)) != 1:
            raise ValueError("give exactly one of cron, interval and rrule")
        return self

    def __str__(self) -> str:
        if self.interval:
            return f"every {in_words(self.interval.total_seconds(), exact=True)}"
        return f"cron {self.cron}" if self.cron else f"rrule {self.rrule}"


class WorkPool(Strict):
    """The pool that executes a deployment's runs."""

    name: str
    work_queue_name: str | None = None
    job_variables: dict[str, Any] | None = None


class ConcurrencyLimit(Strict):
    """The limit of concurrent runs of a deployment, and whether a further run waits or is cancelled."""

    limit: Annotated[int, Field(ge=1)]
    collision_strategy: Annotated[str, Field(pattern="^(ENQUEUE|CANCEL_NEW)$")] = "ENQUEUE"
    grace_period_seconds: int | None = None


class Deployment(Strict):
    """One entry under `deployments`."""

    name: str
    entrypoint: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
    work_pool: WorkPool
    version: str | None = None
    tags: tuple[str, ...] = ()
    description: str | None = None
    schedules: tuple[Schedule, ...] = ()
    paused: bool | None = None
    concurrency_limit: int | ConcurrencyLimit | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    enforce_parameter_schema: bool | None = None
    build: Steps = None
    push: Steps = None
    pull: Steps = None
    triggers: list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Deployment:
        slugs = [schedule.slug for schedule in self.schedules]
        if len(set(slugs)) != len(slugs):
            raise ValueError("two schedules have the same slug")
        return self


class FileFormat(Strict):
    """A whole file."""

    prefect_version: str | None = Field(None, alias="prefect-version")
    name: str | None = None
    definitions: dict[str, Any] | None = None
    build: Steps = None
    push: Steps = None
    pull: Steps = None
    deployments: list[Deployment] | None = None


@dataclass(frozen=True)
class Outline:
    """A parsed YAML file before validation: its text, its values, and their positions in the text."""

    name: str
    text: str
    root: yaml.MappingNode
    data: dict[str, Any]

    def error(self, location: Location, problem: str) -> ConfigError:
        """Return an error about the value at a location, with its line."""
        return ConfigError(f"{self.name} line {_line(self.root, location)}: {problem}")


@dataclass(frozen=True)
class PrefectFile(Outline):
    """A validated file."""

    deployments: tuple[Deployment, ...]


def read(path: Path) -> PrefectFile:
    """Read a file in the format of prefect.yaml. Raises ConfigError with its line and the remedy."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path.name}: not found; check the name") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path.name} is not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be read: {error.strerror}") from error
    return checked(outline(text, path.name))


def outline(text: str, name: str) -> Outline:
    """Read a text as YAML. Raises ConfigError with its line and the remedy."""
    return Outline(name, text, *_load(text, name))


def checked(draft: Outline, *, besides: Collection[str] = ()) -> PrefectFile:
    """Validate a file. The top-level keys in `besides` do not belong to this format.

    Raises ConfigError with the line and the remedy.
    """
    try:
        parsed = FileFormat.model_validate({key: value for key, value in draft.data.items() if key not in besides})
    except ValidationError as error:
        raise complaint(draft, error, FileFormat) from error
    deployments = tuple(parsed.deployments or ())
    places: dict[str, int] = {}
    for index, deployment in enumerate(deployments):
        if deployment.name in places:
            first = _line(draft.root, ("deployments", places[deployment.name], "name"))
            raise draft.error(
                ("deployments", index, "name"),
                f"the name {deployment.name} is already used in line {first}; choose another",
            )
        places[deployment.name] = index
    return PrefectFile(draft.name, draft.text, draft.root, draft.data, deployments)


def complaint(file: Outline, error: ValidationError, model: type[BaseModel], within: Location = ()) -> ConfigError:
    """Describe the first error in one line, with the number of further ones. Never repeats a value of the file."""
    # An unknown key often explains a missing one, so report it first.
    details = sorted(error.errors(include_input=False), key=lambda detail: detail["type"] != "extra_forbidden")
    first = details[0]
    location = (*within, *first["loc"])
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    key = str(first["loc"][-1]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        problem = f"unknown key {key}; {did_you_mean(key, _keys(model, first['loc'][:-1]), 'remove it')}"
        return file.error(location, problem + more)
    place = ".".join(part for part in first["loc"] if isinstance(part, str))
    if first["type"] == "missing":
        return file.error(location, f"{key} is missing; add it{more}")
    message = explain(first)
    return file.error(location, f"{place}: {message}{more}" if place else f"{message}{more}")


def _load(text: str, name: str) -> tuple[yaml.MappingNode, dict[str, Any]]:
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return yaml.MappingNode("tag:yaml.org,2002:map", []), {}
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"{name} line 1: not a mapping of keys; correct it")
        _refuse_doubles(root, name, set())
        return root, loader.construct_document(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{name}{line}: not valid YAML ({getattr(error, 'problem', 'unreadable')})") from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        # For example a date that does not exist, a tag such as !!bool before another type, or endlessly nested brackets.
        raise ConfigError(f"{name}: a value is not valid YAML; put text in quotes") from None


def _refuse_doubles(node: yaml.Node, name: str, visited: set[int]) -> None:
    """Refuse duplicate keys, of which YAML silently uses the last."""
    if id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_doubles(item, name, visited)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(
                    f"{name} line {key.start_mark.line + 1}: a key must be a single word; put it in quotes"
                )
            if key.value in keys and key.value != "<<":
                raise ConfigError(f"{name} line {key.start_mark.line + 1}: duplicate key {key.value}; keep one")
            keys.add(str(key.value))
            _refuse_doubles(value, name, visited)


def find(root: yaml.Node, location: Sequence[int | str]) -> tuple[yaml.Node | None, yaml.Node]:
    """The key and the value at a location, or at its nearest parent that is in the text."""
    found_key: yaml.Node | None = None
    node = root
    for part in location:
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if pair is not None:
                found_key, node = pair
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found_key, node = None, node.value[part]
    return found_key, node


def _line(root: yaml.Node, location: Location) -> int:
    key, value = find(root, location)
    mark = (key or value).start_mark
    return mark.line + 1 if mark else 1


def _keys(model: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    """The valid keys of the model at a location below `model`."""
    current: type[BaseModel] = model
    for part in location:
        field = next((field for name, field in current.model_fields.items() if part in (name, field.alias)), None)
        if field is not None and (inner := _model(field.annotation)) is not None:
            current = inner
    return [field.alias or name for name, field in current.model_fields.items()]


def _model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model(part)) is not None), None)
