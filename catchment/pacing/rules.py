"""What an operator ruled for a source, for a kind of source, or for all: of several rules, the strictest counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from catchment.pacing import windows
from catchment.pacing.limits import HostLimits, RateProfile

ALL = "all"


@dataclass(frozen=True, slots=True)
class Rule:
    """What is ruled; None and empty where nothing is.

    `profile` and `at_once` bound the requests to one host, `active` the jobs that are worked on at the same time and
    `per_hour` those that are begun in an hour. `blackouts` are windows as a person writes them (see `windows.parse`).
    """

    paused: bool = False
    profile: RateProfile | None = None
    at_once: int | None = None
    active: int | None = None
    per_hour: int | None = None
    blackouts: tuple[str, ...] = ()

    def on(self, limits: HostLimits) -> HostLimits:
        """The limits where this rule is not stricter."""
        profile = min(filter(None, (limits.profile, self.profile)), key=lambda one: one.rate)
        return replace(limits, profile=profile, at_once=min(limits.at_once, self.at_once or limits.at_once))

    def as_json(self) -> dict[str, Any]:
        """What is ruled, by name."""
        return {name: value for name, value in asdict(self).items() if value not in (None, (), False)}

    @classmethod
    def of_json(cls, said: dict[str, Any]) -> Rule:
        """The rule that `as_json` told."""
        profile = said.get("profile")
        read = {"profile": profile and RateProfile(profile), "blackouts": tuple(said.get("blackouts", ()))}
        return cls(**(said | read))

    def __str__(self) -> str:
        told = (f"{name.replace('_', ' ')} {_words(value)}".rstrip() for name, value in self.as_json().items())
        return ", ".join(told) or "nothing"


def strictest(rules: Iterable[Rule]) -> Rule:
    """One rule that is as strict as all of these."""
    rules = list(rules)
    return Rule(
        paused=any(rule.paused for rule in rules),
        profile=min(filter(None, (rule.profile for rule in rules)), key=lambda one: one.rate, default=None),
        at_once=min(filter(None, (rule.at_once for rule in rules)), default=None),
        active=min(filter(None, (rule.active for rule in rules)), default=None),
        per_hour=min(filter(None, (rule.per_hour for rule in rules)), default=None),
        blackouts=tuple(dict.fromkeys(window for rule in rules for window in rule.blackouts)),
    )


def scope(kind: str | None = None, source: str | None = None) -> str:
    """The name under which a rule is kept: for a source, for a kind, or for all."""
    return f"source:{source}" if source else f"kind:{kind}" if kind else ALL


def windows_of(rule: Rule) -> list[windows.Window]:
    """Its blackout windows."""
    return [windows.parse(text) for text in rule.blackouts]


def _words(value: object) -> str:
    return "" if value is True else " and ".join(value) if isinstance(value, tuple) else str(value)
