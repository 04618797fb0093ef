"""Operator rules for a source, a kind of source, or everything. If several apply, the strictest wins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from catchment.pacing import windows
from catchment.pacing.limits import HostLimits, RateProfile

ALL = "all"


@dataclass(frozen=True, slots=True)
class Rule:
    """Limits set by an operator; unset fields are None or empty.

    `profile` and `at_once` limit requests to one host. `active` limits concurrent jobs, `per_hour` the jobs started per hour.
    `blackouts` are windows in the syntax of `windows.parse`. `why`: the reason of the pause.
    """

    paused: bool = False
    why: str = ""
    profile: RateProfile | None = None
    at_once: int | None = None
    active: int | None = None
    per_hour: int | None = None
    blackouts: tuple[str, ...] = ()

    def on(self, limits: HostLimits) -> HostLimits:
        """Return `limits`, tightened by this rule."""
        profile = min(filter(None, (limits.profile, self.profile)), key=lambda profile: profile.rate)
        every = limits.every and max(limits.every, 1 / self.profile.rate if self.profile else 0)
        at_once = min(limits.at_once, self.at_once or limits.at_once)
        return replace(limits, profile=profile, every=every, at_once=at_once)

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {name: value for name, value in asdict(self).items() if value not in (None, (), False, "")}

    @classmethod
    def of_json(cls, fields: dict[str, Any]) -> Rule:
        """Build a rule from the output of `as_json`."""
        profile = fields.get("profile")
        read = {"profile": profile and RateProfile(profile), "blackouts": tuple(fields.get("blackouts", ()))}
        return cls(**(fields | read))

    def __str__(self) -> str:
        fields = self.as_json()
        why = f"({fields.pop('why')})" if self.why else ""
        parts = (
            f"{name.replace('_', ' ')} {why if value is True else _words(value)}".rstrip()
            for name, value in fields.items()
        )
        return ", ".join(parts) or "nothing"


def strictest(rules: Iterable[Rule]) -> Rule:
    """Return one rule that is as strict as all given rules."""
    rules = list(rules)
    return Rule(
        paused=any(rule.paused for rule in rules),
        why=next((rule.why for rule in rules if rule.paused and rule.why), ""),
        profile=min(filter(None, (rule.profile for rule in rules)), key=lambda profile: profile.rate, default=None),
        at_once=min(filter(None, (rule.at_once for rule in rules)), default=None),
        active=min(filter(None, (rule.active for rule in rules)), default=None),
        per_hour=min(filter(None, (rule.per_hour for rule in rules)), default=None),
        blackouts=tuple(dict.fromkeys(window for rule in rules for window in rule.blackouts)),
    )


def scope(kind: str | None = None, source: str | None = None) -> str:
    """Return the storage key of a rule: for a source, for a kind, or for everything."""
    return f"source:{source}" if source else f"kind:{kind}" if kind else ALL


def windows_of(rule: Rule) -> list[windows.Window]:
    """Return the parsed blackout windows."""
    return [windows.parse(text) for text in rule.blackouts]


def _words(value: object) -> str:
    return " and ".join(value) if isinstance(value, tuple) else str(value)
