"""What a mishap is, what a system must answer, and how what it holds afterwards is judged; and the hazards of one system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

S = TypeVar("S")


@dataclass(frozen=True)
class Held:
    """What a system says that it has of a folder: the texts of each path below it, and the paths that it named as unread.

    More than one text of a path is a duplicate.
    """

    texts: Mapping[str, Sequence[str]]
    named: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Took:
    """One time that a folder was brought in: the exit code, the seconds, and the most memory of its processes in MB."""

    code: int
    seconds: float
    peak_mb: float = 0.0


Truth = Mapping[str, str | None]
"""The text that must be found under each path; None where the path must at least be named as unread."""


class System(Protocol):
    """Something that brings a folder into a library, and keeps it up to date."""

    name: str

    def ingest(self, folder: Path) -> Took:
        """Bring the folder in, or bring what is known of it up to date."""
        ...

    def holds(self, folder: Path) -> Held:
        """What it has of this folder now."""
        ...

    @property
    def version(self) -> str:
        """What it is, and its version."""
        ...


@dataclass(frozen=True)
class Mishap:
    """Something that happens to a folder between two times that it is brought in.

    `before` makes the folder, `happens` does it; `expected` is for a person, `truth` what must be so afterwards.
    """

    name: str
    expected: str
    before: Callable[[Path], None]
    happens: Callable[[Path], None]
    truth: Callable[[Path], Truth]
    may_refuse: bool = False
    """Whether the system may say that it will not bring this in, by its exit code."""


@dataclass
class Verdict:
    """What was found wrong; right when all of it is empty."""

    ghosts: list[str] = field(default_factory=list)
    """Held, and should not be."""
    missing: list[str] = field(default_factory=list)
    """Not held, though the system named them as unread."""
    silent: list[str] = field(default_factory=list)
    """Not held, and nothing was said."""
    stale: list[str] = field(default_factory=list)
    """Held with another text."""
    doubled: list[str] = field(default_factory=list)
    """Held more than once."""
    wrong: list[str] = field(default_factory=list)
    """Anything else, in words."""

    @property
    def right(self) -> bool:
        return not any(vars(self).values())

    def expect(self, so: bool, otherwise: str) -> None:
        """Note in words what is not so."""
        if not so:
            self.wrong.append(otherwise)

    def __str__(self) -> str:
        if self.right:
            return "right"
        counted = [f"{len(found)} {name}" for name, found in vars(self).items() if found and name != "wrong"]
        return ", ".join(counted + self.wrong)


@dataclass(frozen=True)
class Hazard(Generic[S]):
    """Something that happens to Catchment where no other system has anything to compare: to its processes, its mail, its disk.

    `happens` does it in a scene, and judges what is seen afterwards.
    """

    name: str
    expected: str
    happens: Callable[[S], Verdict]


@dataclass(frozen=True)
class Area(Generic[S]):
    """Hazards with a scene in common, which is made in a folder once and taken down in the end."""

    name: str
    scene: Callable[[Path], AbstractContextManager[S]]
    hazards: Sequence[Hazard[S]]


def judge(truth: Truth, held: Held, noted: Verdict | None = None) -> Verdict:
    """Compare what a system holds with what it must hold, beside what was noted to be wrong before.

    A text is right when it contains the wanted one.
    """
    verdict = Verdict()
    verdict.wrong += noted.wrong if noted else []
    verdict.ghosts = sorted(held.texts.keys() - truth.keys())
    for path, wanted in sorted(truth.items()):
        texts = held.texts.get(path, ())
        if len(texts) > 1:
            verdict.doubled.append(path)
        if wanted is None:
            # What nobody can read may be held by its name alone; to say nothing of it at all is a silent loss.
            if not texts and path not in held.named:
                verdict.silent.append(path)
        elif not texts:
            (verdict.missing if path in held.named else verdict.silent).append(path)
        elif not all(wanted in text for text in texts):
            verdict.stale.append(path)
    return verdict


def told(name: str) -> str:
    """The name of a mishap as a folder may be called."""
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def meet(system: System, mishap: Mishap, folder: Path) -> tuple[Verdict, Took, Took]:
    """Let a mishap happen to a folder that a system has; what is wrong with what it holds afterwards, and both times."""
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
