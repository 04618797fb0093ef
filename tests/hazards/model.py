"""Mishaps, the interface of a system under test, and the judgement of its contents; and hazards of Catchment alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

S = TypeVar("S")


@dataclass(frozen=True)
class Held:
    """The contents that a system reports for a folder: the texts of each path, and the paths reported as unread.

    More than one text of a path is a duplicate.
    """

    texts: Mapping[str, Sequence[str]]
    named: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Took:
    """One ingestion of a folder: the exit code, the duration in seconds, and the peak memory of its processes in MB."""

    code: int
    seconds: float
    peak_mb: float = 0.0


Truth = Mapping[str, str | None]
"""The expected text of each path; None if the path must at least be reported as unread."""


class System(Protocol):
    """A system that ingests a folder and keeps its copy up to date."""

    name: str

    def ingest(self, folder: Path) -> Took:
        """Ingest the folder or update its copy."""
        ...

    def holds(self, folder: Path) -> Held:
        """Return the current contents for this folder."""
        ...

    @property
    def version(self) -> str:
        """Return the system's name and version."""
        ...


@dataclass(frozen=True)
class Mishap:
    """A change to a folder between two ingestions.

    `before` creates the folder, `happens` changes it; `expected` is the outcome in words, `truth` the required
    contents.
    """

    name: str
    expected: str
    before: Callable[[Path], None]
    happens: Callable[[Path], None]
    truth: Callable[[Path], Truth]
    may_refuse: bool = False
    """Whether the system may refuse the ingestion with its exit code."""


@dataclass
class Verdict:
    """The problems found; a verdict without problems is right."""

    ghosts: list[str] = field(default_factory=list)
    """Present, but not expected."""
    missing: list[str] = field(default_factory=list)
    """Missing, but reported as unread."""
    silent: list[str] = field(default_factory=list)
    """Missing without a report."""
    stale: list[str] = field(default_factory=list)
    """Present with another text."""
    doubled: list[str] = field(default_factory=list)
    """Present more than once."""
    wrong: list[str] = field(default_factory=list)
    """Other problems, in words."""

    @property
    def right(self) -> bool:
        return not any(vars(self).values())

    def expect(self, so: bool, otherwise: str) -> None:
        """Record a problem unless the condition holds."""
        if not so:
            self.wrong.append(otherwise)

    def __str__(self) -> str:
        if self.right:
            return "right"
        counted = [f"{len(found)} {name}" for name, found in vars(self).items() if found and name != "wrong"]
        return ", ".join(counted + self.wrong)


@dataclass(frozen=True)
class Hazard(Generic[S]):
    """A hazard specific to Catchment, with no counterpart in other systems: processes, mail, disks.

    `happens` applies it in a scene and judges the result.
    """

    name: str
    expected: str
    happens: Callable[[S], Verdict]


@dataclass(frozen=True)
class Area(Generic[S]):
    """Hazards that share a scene, which is set up once in a folder and torn down at the end."""

    name: str
    scene: Callable[[Path], AbstractContextManager[S]]
    hazards: Sequence[Hazard[S]]


def judge(truth: Truth, held: Held, noted: Verdict | None = None) -> Verdict:
    """Compare a system's contents with the expected ones, and add the problems noted before.

    A text is right if it contains the expected text.
    """
    verdict = Verdict()
    verdict.wrong += noted.wrong if noted else []
    verdict.ghosts = sorted(held.texts.keys() - truth.keys())
    for path, expected in sorted(truth.items()):
        texts = held.texts.get(path, ())
        if len(texts) > 1:
            verdict.doubled.append(path)
        if expected is None:
            # An unreadable item may be present by name only; without any report it is a silent loss.
            if not texts and path not in held.named:
                verdict.silent.append(path)
        elif not texts:
            (verdict.missing if path in held.named else verdict.silent).append(path)
        elif not all(expected in text for text in texts):
            verdict.stale.append(path)
    return verdict


def folder_name(name: str) -> str:
    """Return the name of a mishap as a folder name."""
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def meet(system: System, mishap: Mishap, folder: Path) -> tuple[Verdict, Took, Took]:
    """Apply a mishap to an ingested folder; return the verdict afterwards and the measurements of both ingestions."""
    folder.mkdir(parents=True)
    mishap.before(folder)
    first = system.ingest(folder)
    mishap.happens(folder)
    second = system.ingest(folder)
    verdict = judge(mishap.truth(folder), system.holds(folder))
    if first.code:
        verdict.wrong.append(f"the first time ended with {first.code}")
    if second.code and not mishap.may_refuse:
        verdict.wrong.append(f"ended with {second.code}")
    return verdict, first, second
