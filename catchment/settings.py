"""Typed settings and policies of a source. Strict: unknown keys are errors.

The settings of each kind of source are a subclass of `SourceSettings`, declared beside its connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from catchment.charsets import codec_of
from catchment.model import Priority
from catchment.runtime.home import CONTROL, Home, expanded  # noqa: F401 - tasks and flows know `Home` from here

_PROBLEMS = {
    "bool": "must be true or false",
    "date": "must be a date, such as 2026-11-20",
    "datetime": "must be a time, such as 2026-11-20T14:00:00Z",
    "dict": "must be a group of keys and values",
    "enum": "unknown value; choose {expected}",
    "float": "must be a number",
    "finite": "must be a finite number",
    "frozen": "must be a list",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int": "must be a whole number",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list": "must be a list",
    "literal": "unknown value; choose {expected}",
    "missing": "missing",
    "model": "must be a group of keys and values",
    "none": "must be empty",
    "path": "must be a path",
    "string": "must be text",
    "string_pattern_mismatch": "does not match the pattern {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "time": "must be a duration, such as PT15M",
    "too_long": "must have at most {max_length} elements",
    "too_short": "must have at least {min_length} elements",
    "tuple": "must be a list",
    "value": "{error}",
}
"""Messages by pydantic's error type, or by its first word for the types that share one (`int_type`, `int_parsing`)."""


def explain(details: Mapping[str, Any]) -> str:
    """Return one element of `ValidationError.errors()` in our words, without the rejected value."""
    kind = str(details["type"])
    template = _PROBLEMS.get(kind) or _PROBLEMS.get(kind.partition("_")[0])
    facts = {
        name: f"{value:g}" if isinstance(value, float) else value for name, value in details.get("ctx", {}).items()
    }
    return template.format(**facts) if template else str(details["msg"])


PlanId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
"""Identifies a plan saved in the home folder (`catchment.sync.plan`)."""

BackfillNumber = Annotated[int, Field(ge=1)]
"""Identifies a backfill of the ledger (`catchment backfill list`)."""

SourceName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


def _full(path: Path, info: ValidationInfo) -> Path:
    path = expanded(path)
    if not path.is_absolute():
        # The process that reads the file may have another working directory.
        raise ValueError(f"{info.field_name} must be a full path, such as /home/me/{path.name} or ~/{path.name}")
    return path


FullPath = Annotated[Path, AfterValidator(_full)]


def _from_the_top(reference: str) -> str:
    scheme, _, place = reference.partition(":")
    if scheme == "file" and not expanded(Path(place)).is_absolute():
        # The process that reads the file may have another working directory.
        raise ValueError("secret file: not a full path; use file:/home/me/password or file:~/password")
    return reference


REFERENCE = r"^(env|file|keyring|block):.+$"
"""Pattern of a reference to a secret."""
SecretReference = Annotated[str, StringConstraints(pattern=REFERENCE), AfterValidator(_from_the_top)]
"""`env:VARIABLE`, `file:PATH` (absolute, mode 0600), `keyring:service/user` or `block:NAME`."""


def _charset(name: str) -> str:
    if codec_of(name) is None:
        raise ValueError(f"{name!r} is not a text encoding; examples: windows-1251, shift_jis, gb18030")
    return name


TextEncoding = Annotated[str, AfterValidator(_charset)]
"""Name of an encoding of text."""


class Strict(BaseModel):
    """A frozen model that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Whole = TypeVar("Whole", bound=Strict)


class RetryPolicy(Strict, title="Own retries"):
    """Number and timing of the attempts for a failing item."""

    backoff: Literal["exponential", "linear", "fixed", "immediate", "none"] = Field(
        "exponential", title="Growth of delays", description="How the delay grows from attempt to attempt"
    )
    attempts: int = Field(3, title="Attempts", description="Attempts for an item, including the first", ge=1, le=20)
    initial: float = Field(
        30, title="First delay, seconds", description="Seconds before the second attempt", ge=0, le=86_400
    )
    maximum: float = Field(
        300, title="Longest delay, seconds", description="Seconds that no delay exceeds", ge=0, le=604_800
    )
    multiplier: float = Field(
        2, title="Factor", description="Factor from delay to delay, if they grow exponentially", ge=1, le=10
    )
    jitter: float = Field(
        0.2, title="Variation", description="Fraction by which a delay varies in both directions", ge=0, le=1
    )

    @model_validator(mode="after")
    def _ordered(self) -> RetryPolicy:
        if self.maximum < self.initial:
            raise ValueError("retry.maximum is smaller than retry.initial; raise maximum")
        return self


class CachePolicy(Strict, title="Own cache"):
    """Reuse of the results of completed steps."""

    days: float = Field(
        7, title="Days", description="Days for which a result may be reused; 0 disables caching", ge=0, le=365
    )


N = TypeVar("N", int, float, int | None, float | None)
Stall = Annotated[
    N, Field(title="Stall, seconds", description="Seconds that an item may take without progress", gt=0, le=3_600)
]
Total = Annotated[
    N, Field(title="Total, seconds", description="Seconds that an item may take in total", gt=0, le=86_400)
]
ItemMemory = Annotated[N, Field(title="Memory, MB", description="MB of memory for reading one item", ge=64, le=65_536)]
ItemSize = Annotated[
    N, Field(title="Size, MB", description="Maximum size of an item in MB; larger items are skipped", gt=0, le=10_240)
]
PartNumber = Annotated[
    N,
    Field(title="Files inside", description="Files inside of an archive; five times as many mails", ge=1, le=5_000_000),
]
UnpackedSize = Annotated[
    N,
    Field(title="Unpacked, MB", description="MB inside of an archive; five times as many of mails", gt=0, le=1_000_000),
]


class Limits(Strict):
    """Time and memory limits for one item, in seconds and megabytes."""

    stall_seconds: Stall[float] = 60
    total_seconds: Total[float] = 3_600
    memory_mb: ItemMemory[int] = 1_024
    max_mb: ItemSize[float] = 100
    max_parts: PartNumber[int] = 100_000
    unpacked_mb: UnpackedSize[float] = 2_000

    @property
    def max_bytes(self) -> int:
        """The size limit in bytes."""
        return int(self.max_mb * 1_000_000)


class _Changes(Strict):
    """Partial override of another model with the same fields; None keeps the original value."""

    def on(self, whole: Whole) -> Whole:
        """Return a copy of `whole` with these overrides."""
        return whole.model_copy(update=self.model_dump(exclude_none=True))


class LimitChanges(_Changes, title="Own limits"):
    """A source's overrides of its connector's `Limits`."""

    stall_seconds: Stall[float | None] = None
    total_seconds: Total[float | None] = None
    memory_mb: ItemMemory[int | None] = None
    max_mb: ItemSize[float | None] = None
    max_parts: PartNumber[int | None] = None
    unpacked_mb: UnpackedSize[float | None] = None


class ResourceChanges(Strict, title="Own resources"):
    """What the syncs of a source may take of the machine; None: as its kind."""

    at_once: int | None = Field(
        None, title="Concurrent syncs", description="Concurrent syncs of sources of this kind", ge=1, le=64
    )


class Preset(StrEnum):
    """Number of parsers and batch size of a sync, as measured by `python -m benchmarks.presets`."""

    LOCAL = "local"
    STANDARD = "standard"
    HIGH_THROUGHPUT = "high-throughput"


# There are no stages and queues to size: transactions are serialized, and the ledger is the queue.
_PARSERS_AND_BATCH = {Preset.LOCAL: (1, 250), Preset.STANDARD: (2, 1_000), Preset.HIGH_THROUGHPUT: (8, 1_000)}


class Policy(Strict):
    """Retry, caching and resource policy of a connector. A source may override each part.

    `parsers` is the number of parallel processes, capped by the number of cores. `batch` is the maximum number of jobs per
    claim and per delivery transaction; larger batches make other processes wait longer. `at_once` is the number of
    concurrent syncs of the kind. `keep_raw` as in `SourceSettings`.
    """

    retry: RetryPolicy = RetryPolicy()
    cache: CachePolicy = CachePolicy()
    limits: Limits = Limits()
    at_once: int = 2
    keep_raw: bool | None = None
    parsers: int = 2
    batch: int = 1_000
    keep_days: int = 30


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting by its dotted key, its value (None: the default of its kind), and what it means.

    `is_fixed`: it decides which place the source reads, so that it cannot be changed. `is_secret`: it refers to a secret.
    """

    key: str
    value: Any
    meaning: str | None
    is_fixed: bool
    is_secret: bool

    @property
    def is_common(self) -> bool:
        """Whether all kinds of sources have this setting."""
        return self.key.partition(".")[0] in SourceSettings.model_fields


class SourceSettings(Strict):
    """Settings common to all kinds of sources. Each connector defines a subclass."""

    identity: ClassVar[tuple[str, ...]]
    """The settings that decide which place a source reads. With another value, it is another source."""

    priority: Priority = Field(
        Priority.NORMAL, title="Priority", description="Share of the machine while several sources are syncing"
    )
    retry: RetryPolicy | None = Field(None, title="Retries", description="None: those of this kind of source")
    cache: CachePolicy | None = Field(None, title="Cache", description="None: that of this kind of source")
    limits: LimitChanges | None = Field(
        None, title="Limits", description="For each item of this source; None: those of its kind"
    )
    resources: ResourceChanges | None = Field(
        None, title="Resources", description="For one sync of this source; None: those of its kind"
    )
    preset: Preset = Field(
        Preset.STANDARD, title="Preset", description="Number of parsers and size of batches of a sync"
    )
    keep_days: int = Field(
        30,
        title="Days of versions",
        description="Days for which earlier versions of documents are kept",
        ge=1,
        le=3_650,
    )
    assistants: bool = Field(
        True, title="Assistants", description="Let assistants (`catchment mcp`) search and read this source"
    )
    keep_raw: bool | None = Field(
        None,
        title="Keep raw content",
        description="Keep items as fetched, for better parsers; None: yes for what a host sends, no for files",
    )

    @field_validator("*")
    @classmethod
    def _printable(cls, value: Any) -> Any:
        """Reject control characters: no system call accepts a NUL in a path, and a line break could forge log lines."""
        if isinstance(value, str | Path) and (match := CONTROL.search(str(value))):
            raise ValueError(f"contains the control character U+{ord(match[0]):04X}; remove it, or rename the folder")
        return value

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for a location as typed by the user. Raises BadInput."""
        raise NotImplementedError

    def locator_of(self, file: Path) -> str | None:
        """Return the locator that a file has in this source; None if it is outside. The file may be missing."""
        del file
        return None

    def locator_of_address(self, address: str) -> str | None:
        """Return the locator that a web address has in this source, however it is spelled; None if it can have none."""
        del address
        return None

    def rows(self) -> list[SettingRow]:
        """Return all settings, also those with their default, and of an unchecked model those without a value."""
        rows = []
        for name, field in type(self).model_fields.items():
            is_mapping = get_origin(field.annotation) is dict
            kinds = () if is_mapping else get_args(field.annotation) or (field.annotation,)
            value = getattr(self, name, None)
            if group := next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None):
                rows += [
                    SettingRow(f"{name}.{key}", getattr(value, key, None), inner.description, False, False)
                    for key, inner in group.model_fields.items()
                ]
            else:
                secret = SecretReference in kinds
                rows.append(SettingRow(name, value, field.description, name in self.identity, secret))
        return rows

    def differing(self, configured: SourceSettings) -> tuple[str, ...]:
        """Return the names of the settings in `identity` that differ from the configured ones."""
        return tuple(name for name in self.identity if getattr(self, name) != getattr(configured, name))

    def policy(self, default: Policy) -> Policy:
        """Return the connector's policy with this source's overrides."""
        parsers, batch = _PARSERS_AND_BATCH[self.preset]
        return Policy(
            retry=self.retry or default.retry,
            cache=self.cache or default.cache,
            limits=(self.limits or LimitChanges()).on(default.limits),
            at_once=(self.resources and self.resources.at_once) or default.at_once,
            keep_raw=self.keep_raw,
            parsers=parsers,
            batch=batch,
            keep_days=self.keep_days,
        )
