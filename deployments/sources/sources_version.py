"""The version of the format of `sources.yaml`, and the steps that migrate an older file.

A step is a function from a text to the text of the next version. It edits lines and keeps the others, comments included. Its
result is used only if it parses to the expected values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from catchment.errors import ConfigError
from deployments.sources.edits import with_value
from deployments.sources.prefect_file import Outline, find, outline

KEY = "version"
VERSION = 2
"""The version of this program; a file without a version has version 0."""

_RESOURCES = ("parameters", "settings", "resources")
_WITHOUT_EFFECT = frozenset(("cores", "memory_mb"))

Step = Callable[[Outline], tuple[str, Mapping[str, Any]]]
"""From a file of the previous version to its text in the next version, and the values expected there."""


def version_of(file: Outline) -> int:
    """Return the version of a file. Raises ConfigError if it is newer than this program, or not a version."""
    version = file.data.get(KEY, 0)
    if type(version) is not int or version < 0:
        raise file.error((KEY,), f"invalid {KEY}; write the number of the format, {VERSION}")
    if version > VERSION:
        raise file.error(
            (KEY,),
            f"the file has version {version}, but this program supports only up to {VERSION}; install a newer Catchment",
        )
    return version


def migrated(file: Outline) -> Outline:
    """Return the file in the version of this program. Raises ConfigError with the remedy."""
    for step in _STEPS[version_of(file) :]:
        text, expected = step(file)
        result = _read(text, file.name)
        if result is None or not _same(result.data, expected, set()):
            raise ConfigError(
                f"{file.name} cannot be edited by this command as it is written; put `{KEY}: {VERSION}` first"
            )
        file = result
    return file


def backup(path: Path, version: int) -> Path:
    """The path of the copy of a file that is kept when it is migrated from this version."""
    return path.with_name(f"{path.name}.version-{version}")


def _read(text: str, name: str) -> Outline | None:
    try:
        return outline(text, name)
    except ConfigError:
        return None


def _same(value: Any, other: Any, met: set[tuple[int, int]]) -> bool:
    """Whether two values are equal. Compares each pair once, because YAML aliases can repeat a value very often."""
    if (id(value), id(other)) in met:
        return True
    met.add((id(value), id(other)))
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(_same(value[key], other[key], met) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(_same(*pair, met) for pair in zip(value, other, strict=True))
    return bool(value == other)


def _named(file: Outline) -> tuple[str, Mapping[str, Any]]:
    """From 0 to 1: add the version, at the end, so that errors name the lines of the file as it was written."""
    begin, end = file.root.start_mark, file.root.end_mark
    if file.root.flow_style and begin is not None:
        head, tail = file.text[: begin.index + 1], file.text[begin.index + 1 :]
        return f"{head}{KEY}: 1, {tail}", {KEY: 1, **file.data}
    # A file with only comments has no mark.
    at, column = (len(file.text), 0) if begin is None else (end.index, begin.column)
    head, tail = file.text[:at], file.text[at:]
    line = "" if not head or head.endswith("\n") else "\n"
    return f"{head}{line}{' ' * column}{KEY}: 1\n{tail}", {KEY: 1, **file.data}


def _with_effective_resources(file: Outline) -> tuple[str, Mapping[str, Any]]:
    """From 1 to 2: remove `cores` and `memory_mb` from the resources of sources, because they have no effect."""
    expected = {**deepcopy(file.data), KEY: 2}
    listed = expected.get("deployments")
    for index, deployment in enumerate(listed if isinstance(listed, list) else ()):
        location, value = ("deployments", index, *_RESOURCES), deployment
        for part in _RESOURCES:
            value = value.get(part) if isinstance(value, dict) else None
        if not isinstance(value, dict) or _WITHOUT_EFFECT.isdisjoint(value):
            continue
        for name in _WITHOUT_EFFECT:
            value.pop(name, None)
        _, node = find(file.root, location)
        if isinstance(node, yaml.MappingNode) and node.flow_style:
            written = yaml.safe_dump(value, default_flow_style=True, width=math.inf).strip()
            text = file.text[: node.start_mark.index] + written + file.text[node.end_mark.index :]
        else:
            text = with_value(file, location, value)
        file = _read(text, file.name) or file
    _, version = find(file.root, (KEY,))
    return f"{file.text[: version.start_mark.index]}2{file.text[version.end_mark.index :]}", expected


_STEPS: tuple[Step, ...] = (_named, _with_effective_resources)
