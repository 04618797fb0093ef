"""A copy of a repository on this machine: the newest commits, without their past and without large files.

It can be made anew at any time. A copy that git has trouble with is replaced by a fresh one, once that is whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from catchment.errors import SourceUnavailable
from connectors.github.git.git import SECONDS, Damaged, Objects, Stalled, commit_of, make_empty, tidy
from connectors.github.git.remote import Remote

MOST_PACKS = 20
"""A copy with more is put into one."""
_NEVER_FINISHED = ("*.lock", "objects/pack/tmp_*", "objects/*/tmp_obj_*", "gc.pid")


class Mirror:
    """The copy of one repository, in a folder of its own. Only one sync works with it at a time. `seconds` limits a query."""

    def __init__(self, folder: Path, remote: Remote, max_bytes: int, seconds: float = SECONDS) -> None:
        self._folder = folder
        self._remote = remote
        self._max_bytes = max_bytes
        self._seconds = seconds
        self.objects = Objects(folder / "objects", folder.with_suffix(".read"), seconds)

    def heads(self, branches: Sequence[str]) -> Mapping[str, str]:
        """As `Remote.heads`, after what is new there was brought here. Nothing is fetched when nothing is new."""
        there = self._remote.heads(branches)
        places = {branch: f"refs/copied/{branch or 'HEAD'}" for branch in there}
        if self.is_whole() and all(self._has(places[branch], commit) for branch, commit in there.items()):
            return there
        if places:
            self._bring(places)
        here = {branch: commit_of(self._folder, place, self._seconds) for branch, place in places.items()}
        return {branch: commit for branch, commit in here.items() if commit is not None}

    def is_whole(self) -> bool:
        """Whether there is a copy, in which nothing is known to be missing."""
        return (self._folder / "HEAD").exists() and not self._distrusted.exists()

    def check(self) -> None:
        """What is missing is fetched by the next listing."""

    def distrust(self) -> None:
        """Have the copy made anew by the next listing, because something in it cannot be read."""
        # Without a folder there is no copy to distrust.
        with suppress(FileNotFoundError):
            self._distrusted.touch()

    def close(self) -> None:
        """End what reads it."""
        self.objects.close()

    @property
    def _distrusted(self) -> Path:
        return self._folder.with_suffix(".distrusted")

    def _has(self, place: str, commit: str) -> bool:
        try:
            return commit_of(self._folder, place, self._seconds) == commit
        except Stalled:
            raise  # The disk is at fault, and not the copy.
        except SourceUnavailable:
            self.distrust()
            return False

    def _bring(self, places: Mapping[str, str]) -> None:
        self.objects.close()
        if self.is_whole():
            self._clear()
            with suppress(Damaged):
                self._remote.fetch(self._folder, places, self._max_bytes)
                return
        fresh = self._folder.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        make_empty(fresh)
        try:
            self._remote.fetch(fresh, places, self._max_bytes)
        except Damaged:
            raise SourceUnavailable("git cannot copy the repository; find out why with `git clone`") from None
        shutil.rmtree(self._folder, ignore_errors=True)
        fresh.rename(self._folder)
        self._distrusted.unlink(missing_ok=True)

    def _clear(self) -> None:
        """Remove what a killed git has left, and many packs: no other git is at work here."""
        for pattern in _NEVER_FINISHED:
            for path in self._folder.rglob(pattern) if pattern == "*.lock" else self._folder.glob(pattern):
                path.unlink(missing_ok=True)
        if sum(1 for _ in self._folder.glob("objects/pack/*.pack")) > MOST_PACKS:
            tidy(self._folder)
