"""Values as a person types and reads them: lengths of time, moments, `key=value`; what is wrong is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_origin

import typer

from catchment.errors import BadInput
from catchment.runtime.home import expanded
from console import render

if TYPE_CHECKING:
    from catchment.settings import SourceSettings
    from deployments.sources.prefect_file import Schedule

Settings = TypeVar("Settings", bound="SourceSettings")
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Why = Annotated[str, typer.Option("--reason", help="Why, for the history.")]

LARGEST: Final = 2**63 - 1
"""The largest number that anything in a ledger can have."""

_UNITS: Final = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LENGTH: Final = re.compile(r"(\d{1,6})\s*(s|m|min|h|d|w)")
_SUMMARY: Final = {
    "succeeded": "in the library",
    "moved": "moved",
    "deleted": "deleted",
    "held": "deletions held",
    "unchanged": "unchanged",
    "skipped": "skipped",
    "retrying": "to be tried again",
    "quarantined": "quarantined",
    "left": "left to the next sync, for they changed since the plan",
}
_REFERENCES: Final = ("env:", "keyring:", "file:", "block:")


def length(text: str) -> timedelta:
    """A length of time: "90s", "15m", "2h", "30d", "4w". Raises BadInput."""
    match = _LENGTH.fullmatch(text.strip().lower())
    if match is None:
        raise BadInput(f"{text!r} is not a length of time; write it like 15m, 2h or 30d")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def end(text: str) -> datetime:
    """The moment when so much time has passed from now. Raises BadInput."""
    try:
        return datetime.now(UTC) + length(text)
    except OverflowError:
        raise BadInput(f"{text!r} is longer than there is a calendar for; give less, or nothing for good") from None


def moment(text: str) -> datetime:
    """A moment in the past: a length of time before now, or an ISO date or time (local where it names no zone)."""
    try:
        if _LENGTH.fullmatch(text.strip().lower()):
            return datetime.now(UTC) - length(text)
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{text!r} is not a moment; write it like 2h, 7d, 2026-11-20 or 2026-11-20T14:00") from None


def settings(assignments: Sequence[str]) -> dict[str, Any]:
    """`key=value` pairs as settings: the value is read as YAML, a dotted key reaches inside ("limits.max_mb=20")."""
    result: dict[str, Any] = {}
    for key, text in map(_assignment, assignments):
        value = _value(key, text) if text else ""
        *path, last = key.split(".")
        inner = result
        for part in path:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise BadInput(f"{key} is set twice, once as a value and once as a group; give it once")
        if last in inner:
            raise BadInput(f"{key} is set twice; give it once")
        inner[last] = value
    return result


def secrets(assignments: Sequence[str]) -> dict[str, str]:
    """`name=REF` pairs, where REF says where a secret is kept; a secret itself is refused without being repeated."""
    result = dict(map(_assignment, assignments))
    for name, reference in result.items():
        if not reference.startswith(_REFERENCES):
            forms = "env:VARIABLE, keyring:service/user, file:PATH or block:NAME"
            raise BadInput(f"--secret {name}= takes where the secret is kept, never the secret itself: {forms}")
    return {name: located(reference) for name, reference in result.items()}


def located(reference: str) -> str:
    """The reference as it leads there from every folder: a sync is in another one than whoever types `file:PATH`."""
    scheme, _, place = reference.partition(":")
    path = expanded(Path(place))
    return f"file:{path.absolute()}" if scheme == "file" and place and not path.is_absolute() else reference


def typed(model: type[Settings], given: Mapping[str, Any]) -> Settings:
    """Settings of this class; a lone text is a list of one where a list is wanted, and an empty one a list of none.

    Raises BadInput that names the setting, and one that is close where it is unknown.
    """
    from pydantic import ValidationError

    lists = [name for name, field in model.model_fields.items() if get_origin(field.annotation) is tuple]
    alone = {name: (text,) if text else () for name in lists if isinstance(text := given.get(name), str)}
    try:
        return model.model_validate({**given, **alone})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            close = get_close_matches(name, model.model_fields, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(sorted(model.model_fields))}"
            raise BadInput(f"{name} is not a setting of this kind; {hint}") from None
        raise BadInput(f"{name or 'settings'}: {first['msg'].removeprefix('Value error, ')}") from None


def summary(counts: Mapping[str, int]) -> str:
    """What a sync did, in words: "3 in the library, 1 moved"; "nothing to do" when it did nothing."""
    if "undoes" in counts:
        return f"took sync {counts['undoes']} back"
    told = [f"{counts[what]} {words}" for what, words in _SUMMARY.items() if counts.get(what)]
    return ", ".join(told) or "nothing to do"


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings as `--set` takes them: one value per dotted key; what is not set is left out."""
    result: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        elif value is not None:
            result[prefix + key] = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
    return result


def timing(schedules: Sequence[Schedule], watch: bool, quiet: float | None = None) -> str:
    """When a source is synced, in words."""
    told = [
        f"every {render.span(schedule.interval.total_seconds())}"
        if schedule.interval
        else f"cron {schedule.cron}"
        if schedule.cron
        else f"rrule {schedule.rrule}"
        for schedule in schedules
    ]
    if watch:
        told.append("on change" if quiet is None else f"{quiet:g} s after a change")
    return ", ".join(told) or "by hand"


def _value(key: str, text: str) -> Any:
    """A value as YAML, but that a sign which begins a word is part of it: patterns begin with * and !, as YAML's own do."""
    import yaml

    class Plain(yaml.SafeLoader):
        fetch_alias = fetch_anchor = fetch_tag = fetch_directive = yaml.SafeLoader.fetch_plain

        def check_plain(self) -> bool:
            return self.peek() in "%@`" or bool(super().check_plain())

    try:
        return yaml.load(text, Plain)
    except (yaml.YAMLError, ValueError, RecursionError):
        # A day that no month has is a ValueError.
        raise BadInput(f"the value of {key} is not valid YAML; put it in quotes: --set '{key}=\"…\"'") from None


def _assignment(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise BadInput(f"{key!r} has no value; write it as key=value")
    return key.strip(), value
