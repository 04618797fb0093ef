"""A shallow copy of a repository on this machine: the latest commits, without history and large files.

It can be recreated at any time. A copy that git cannot read is replaced by a fresh one once that is complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from catchment.errors import SourceUnavailable
from connectors.github.git.git import SECONDS, Stalled, collect_garbage, create_empty, resolve_commit, share_history
from connectors.github.git.objects import Damaged, Objects
from connectors.github.git.remote_repository import Remote

MAX_PACKS = 20
"""With more packs, they are merged into one."""
_LEFTOVERS = ("*.lock", "objects/pack/tmp_*", "objects/*/tmp_obj_*", "gc.pid")


class Mirror:
    """The copy of one repository, in its own folder. Used by one sync at a time. `seconds` limits a query."""

    def __init__(self, folder: Path, remote: Remote, max_bytes: int, seconds: float = SECONDS) -> None:
        self._folder = folder
        self._remote = remote
        self._max_bytes = max_bytes
        self._seconds = seconds
        self.objects = Objects(folder / "objects", folder.with_suffix(".read"), seconds)

    def heads(self, branches: Sequence[str]) -> Mapping[str, str]:
        """Return the latest commits as `Remote.heads` does, after fetching them.

        Without new commits, this fetches no data.
        """
        remote_heads = self._remote.heads(branches)
        refs = {branch: f"refs/copied/{branch or 'HEAD'}" for branch in remote_heads}
        if self.is_complete() and all(
            self._is_current(refs[branch], commit) for branch, commit in remote_heads.items()
        ):
            return remote_heads
        if refs:
            self._fetch(refs)
        local_heads = {branch: resolve_commit(self._folder, ref, self._seconds) for branch, ref in refs.items()}
        return {branch: commit for branch, commit in local_heads.items() if commit is not None}

    def shares_history(self, old: str, new: str) -> bool:
        """Return whether two commits are known to have a recent common ancestor. Raises as `heads` does.

        Fetches the commits without their files. The host may have deleted the old commit.
        """
        history = self._folder.with_suffix(".history")
        shutil.rmtree(history, ignore_errors=True)
        create_empty(history)
        try:
            self._remote.fetch_commits(history, (old, new))
            return share_history(history, old, new, self._seconds)
        except Damaged:
            return False
        finally:
            shutil.rmtree(history, ignore_errors=True)

    def is_complete(self) -> bool:
        """Return whether a copy exists and no data is known to be missing."""
        return (self._folder / "HEAD").exists() and not self._damage_marker.exists()

    def mark_damaged(self) -> None:
        """Mark the copy as damaged, so that the next listing replaces it."""
        # Without the folder there is no copy.
        with suppress(FileNotFoundError):
            self._damage_marker.touch()

    def close(self) -> None:
        """End the git process that reads objects."""
        self.objects.close()

    @property
    def _damage_marker(self) -> Path:
        return self._folder.with_suffix(".distrusted")

    def _is_current(self, ref: str, commit: str) -> bool:
        try:
            return resolve_commit(self._folder, ref, self._seconds) == commit
        except Stalled:
            raise  # The disk is at fault, not the copy.
        except SourceUnavailable:
            self.mark_damaged()
            return False

    def _fetch(self, refs: Mapping[str, str]) -> None:
        self.objects.close()
        if self.is_complete():
            self._clean_up()
            with suppress(Damaged):
                self._remote.fetch(self._folder, refs, self._max_bytes)
                return
        fresh = self._folder.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        create_empty(fresh)
        try:
            self._remote.fetch(fresh, refs, self._max_bytes)
        except Damaged:
            raise SourceUnavailable("repository: cannot be copied by git; try `git clone` to see why") from None
        shutil.rmtree(self._folder, ignore_errors=True)
        fresh.rename(self._folder)
        self._damage_marker.unlink(missing_ok=True)

    def _clean_up(self) -> None:
        """Remove leftovers of a killed git, and merge many packs. No other git is running here."""
        for pattern in _LEFTOVERS:
            for path in self._folder.rglob(pattern) if pattern == "*.lock" else self._folder.glob(pattern):
                path.unlink(missing_ok=True)
        if sum(1 for _ in self._folder.glob("objects/pack/*.pack")) > MAX_PACKS:
            collect_garbage(self._folder)
