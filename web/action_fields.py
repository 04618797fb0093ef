"""The fields of the actions. Numbers, times and flags may be typed."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Annotated, Any, ClassVar

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from catchment.errors import BadInput, Reason
from catchment.model import ReplayStage
from catchment.pacing import RateProfile
from catchment.settings import SecretReference
from catchment.typed_settings import settings
from deployments.actions.desk import Timing
from deployments.actions.quarantine import Selection
from deployments.actions.sources import NewSource

_LARGEST = 2**63 - 1
_Name = Annotated[str, Field(max_length=500)]
_Text = Annotated[str, Field(max_length=2_000)]
_Location = Annotated[str, Field(max_length=4_096)]
_Secret = Annotated[str, Field(max_length=16_384, repr=False)]


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value


def _lines(value: Any) -> Any:
    return settings([line for line in value.splitlines() if line.strip()]) if isinstance(value, str) else value


def _each_line(value: Any) -> Any:
    return [line.strip() for line in value.splitlines() if line.strip()] if isinstance(value, str) else value


_Optional = BeforeValidator(_none_if_empty)
_NO_FLAG = BeforeValidator(_no_flag)
"""Refuses `true` and `false` as numbers in JSON. It follows the bounds; before them, it hides them from the OpenAPI schema."""
_Lines = Annotated[tuple[_Text, ...], BeforeValidator(_each_line)]
_Settings = Annotated[dict[str, Any], BeforeValidator(_lines)]
_Schedule = Annotated[_Text | None, _Optional]
_Limit = Annotated[Annotated[int, Field(ge=1, le=_LARGEST), _NO_FLAG] | None, _Optional]
_Number = Annotated[int, Field(ge=0, le=2**62), _NO_FLAG]
_Numbers = Annotated[
    tuple[_Number, ...], BeforeValidator(lambda fields: fields.split(",") if isinstance(fields, str) else fields)
]


class ActionFields(BaseModel):
    """The fields of an action, typed in a form or sent as JSON. Each has a reason for the history."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: _Text = ""


class _TimingFields(ActionFields):
    """When a source is synced. `every`: "15m"."""

    every: _Schedule = None
    cron: _Schedule = None
    rrule: _Schedule = None
    watch: Annotated[bool | None, _Optional] = None
    debounce: Annotated[Annotated[float, _NO_FLAG] | None, _Optional] = None

    @property
    def timing(self) -> Timing:
        """The fields as the actions need them."""
        return Timing(self.every, self.cron, self.rrule, self.watch, self.debounce)


class _UntilFields(ActionFields):
    """The end of a consent: a time, or a day, at whose end it ends."""

    until: Annotated[AwareDatetime | date | None, _Optional] = None

    @property
    def end(self) -> datetime | None:
        """The end as a time. Raises BadInput."""
        if self.until is None or isinstance(self.until, datetime):
            return self.until
        return _local(self.until, time.max)


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else _local(day, time.min)


def _local(day: date, moment: time) -> datetime:
    try:
        return datetime.combine(day, moment).astimezone()
    except (OverflowError, ValueError):
        raise BadInput(f"{day}: out of range; choose a day of the years 2 to 9998") from None


class PlanFields(ActionFields):
    """A new backfill. `since` and `until`: the first day, and the first one after. Without a `stage`: what fits the kind."""

    name: _Name
    since: Annotated[date | None, _Optional] = None
    until: Annotated[date | None, _Optional] = None
    stage: Annotated[ReplayStage | None, _Optional] = None

    @property
    def window(self) -> tuple[datetime | None, datetime | None]:
        """The beginning and the end of the period. Raises BadInput."""
        return _midnight(self.since), _midnight(self.until)


class SourceFields(_TimingFields, _UntilFields):
    """A new source. `secret`: its password or token itself; `settings`: of its connector, or lines of `key=value`.

    `consent`: to all that it is set to read.
    """

    kind: _Name
    location: _Location
    name: _Name
    settings: _Settings = Field(default_factory=dict)
    secret: _Secret = ""
    consent: bool = False

    @property
    def new(self) -> NewSource:
        """The source as the action needs it."""
        return NewSource(self.kind, self.location, self.name, self.settings, self.timing, self.secret)


class HostsFields(_UntilFields):
    """Hosts that a web source may contact from now on, or lines of them."""

    name: _Name
    hosts: _Lines


class InboxFields(ActionFields):
    """Web addresses for the inbox, or lines of them. `consent`: to all their hosts; `hosts`: to these alone."""

    addresses: _Lines
    hosts: _Lines = ()
    consent: bool = False


class ChangeFields(_TimingFields):
    """Settings of a source to replace, or lines of `key=value`; null removes one. `secret`: a new password or token itself."""

    name: _Name
    settings: _Settings = Field(default_factory=dict)
    secret: _Secret = ""


class MoveFields(ActionFields):
    """A source that this host takes over. `anywhere`: any host may run it."""

    name: _Name
    anywhere: bool = False


class ConfirmedFields(ActionFields):
    """A host, named twice: it is taken out."""

    noun: ClassVar[str] = "host"
    name: _Name
    confirm: _Name

    @property
    def confirmed(self) -> str:
        """The name. Raises BadInput if it was typed differently."""
        if self.confirm.strip() != self.name:
            raise BadInput(f"confirm: type the name of the {self.noun}, {self.name}; nothing was changed")
        return self.name


class RemoveFields(ConfirmedFields):
    """A source, named twice: its documents are deleted. `scope`: of a withdrawn consent, only this one."""

    noun: ClassVar[str] = "source"
    scope: Annotated[_Name | None, _Optional] = None


class ConsentFields(_UntilFields):
    """A source that may be read."""

    name: _Name


class LimitFields(ActionFields):
    """Limits of a scope ("all", "kind:KIND", "source:NAME"). One that is absent stays; null, or an empty text, removes it."""

    name: _Name
    paused: bool = False
    profile: Annotated[RateProfile | None, _Optional] = None
    at_once: _Limit = None
    active: _Limit = None
    per_hour: _Limit = None
    blackouts: _Lines = ()

    @property
    def limits(self) -> dict[str, Any]:
        """The limits that were given."""
        return {name: getattr(self, name) for name in self.model_fields_set - {"name", "reason"}}


class SinkFields(ActionFields):
    """A new sink. `place`: a full path or an address; `password`: the reference to its password.

    `consent`: documents may leave this machine.
    """

    kind: _Name
    place: _Location
    name: _Name
    password: Annotated[SecretReference | None, _Optional] = None
    consent: bool = False


class SettingFields(ActionFields):
    """The model of search by meaning: `use`, `off`, `ollama:MODEL@URL` or `openai:MODEL@URL`.

    Or how text on pictures is recognized: `auto`, `off`, or Tesseract's names of languages, such as `deu+eng`.
    """

    setting: _Text


class AgeFields(ActionFields):
    """An age in days."""

    days: Annotated[float, Field(ge=0, le=36_500), _NO_FLAG]


class NamedFields(ActionFields):
    """A source, a sink, or a host for its circuit breaker. `expected`: of held deletions, the number that the person saw."""

    name: _Name
    expected: _Number | None = None
    deep: bool = False


class NumberFields(ActionFields):
    """A job, a sync or an incident."""

    number: _Number


class ItemsFields(ActionFields):
    """Quarantined items, as `Selection`; `jobs` of a form are separated by commas. `text`: of a note."""

    jobs: _Numbers = ()
    source: _Name | None = None
    cause: Reason | None = None
    cluster: _Name | None = None
    expected: _Number | None = None
    text: _Text = ""

    @property
    def selection(self) -> Selection:
        """The items. Raises BadInput without the number that the person saw: all that match could be more."""
        if not self.jobs and self.expected is None:
            raise BadInput("expected: missing; give the number of items that match")
        return Selection(self.jobs, self.source, self.cause, self.cluster, self.expected)


class ReasonFields(ActionFields):
    """A reason, and no other field."""


class EverySourceFields(ActionFields):
    """All sources."""

    deep: bool = False
