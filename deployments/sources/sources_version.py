"""The version of the format of `sources.yaml`, and the steps that lead an older file forward.

A step is a function from a text to the text of the next version. It edits lines and keeps the rest, comments included; what it
made is kept only if it says what was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from catchment.errors import ConfigError
from deployments.sources.prefect_file import Outline, outline

KEY = "version"
VERSION = 1
"""The version of this program; a file that names none is of version 0."""

Step = Callable[[Outline], tuple[str, Mapping[str, Any]]]
"""Of a file of the version before: its text in the next one, and what that has to say."""


def version_of(file: Outline) -> int:
    """The version of a file. Raises ConfigError when it is newer than this program, or none."""
    found = file.data.get(KEY, 0)
    if type(found) is not int or found < 0:
        raise file.error((KEY,), f"{KEY}: write the number of the format, {VERSION}")
    if found > VERSION:
        raise file.error(
            (KEY,),
            f"the file is of version {found}, and this program knows {VERSION} at most; install a newer Catchment",
        )
    return found


def led_forward(file: Outline) -> Outline:
    """The file as this program's version has it; the same when it is that. Raises ConfigError with the remedy."""
    for step in _STEPS[version_of(file) :]:
        text, meant = step(file)
        led = _read(text, file.name)
        if led is None or not _same(led.data, meant, set()):
            raise ConfigError(
                f"{file.name} cannot be edited by this command as it is written; put `{KEY}: {VERSION}` first"
            )
        file = led
    return file


def kept(path: Path, version: int) -> Path:
    """Where the file is kept as it was when it was of this version."""
    return path.with_name(f"{path.name}.version-{version}")


def _read(text: str, name: str) -> Outline | None:
    try:
        return outline(text, name)
    except ConfigError:
        return None


def _same(one: Any, other: Any, met: set[tuple[int, int]]) -> bool:
    """Whether two values are equal, with each pair looked at once: aliases make little text say a great deal."""
    if (id(one), id(other)) in met:
        return True
    met.add((id(one), id(other)))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key], met) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(*pair, met) for pair in zip(one, other, strict=True))
    return bool(one == other)


def _named(file: Outline) -> tuple[str, Mapping[str, Any]]:
    """From 0 to 1: the file says its version; below all else, so that complaints about it name the lines that a person sees."""
    begin, end = file.root.start_mark, file.root.end_mark
    if file.root.flow_style and begin is not None:
        head, tail = file.text[: begin.index + 1], file.text[begin.index + 1 :]
        return f"{head}{KEY}: 1, {tail}", {KEY: 1, **file.data}
    # A file of nothing but comments has no mark.
    at, column = (len(file.text), 0) if begin is None else (end.index, begin.column)
    head, tail = file.text[:at], file.text[at:]
    line = "" if not head or head.endswith("\n") else "\n"
    return f"{head}{line}{' ' * column}{KEY}: 1\n{tail}", {KEY: 1, **file.data}


_STEPS: tuple[Step, ...] = (_named,)
