"""The files of a repository: what is different from what is known, told by git."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Protocol
from urllib.parse import quote

from catchment.contracts import Known
from catchment.errors import AccessDenied, FetchFailed, Skipped, SourceUnavailable
from catchment.model import (
    Change,
    Checkpoint,
    Failure,
    Item,
    KnownItem,
    RawContent,
    Skip,
    SkipReason,
    Tombstone,
    Upsert,
)
from connectors.folders.excluded import now_excluded
from connectors.github.git.filters import Attributes, FileRules
from connectors.github.git.git import Damaged, Difference, Objects, TreeEntry
from connectors.github.names import is_file, is_wiki

_CHANGES_PER_CHECKPOINT = 1_000
_TOLD = "/"
"""Ends the mark of a branch."""
_SETTLED = timedelta(minutes=1)
_ATTRIBUTES = ".gitattributes"
_EMPTY_BLOBS = frozenset(
    {
        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
    }
)
_LARGE_FILE_POINTER = b"version https://git-lfs.github.com/spec/"
_MADE_BY_PROGRAM = re.compile(rb"^.{0,8}Code generated .{0,200}DO NOT EDIT|^.{0,8}@generated\b", re.MULTILINE)
_HEAD = 2_048
_TITLED_THEMSELVES = frozenset({".md", ".markdown", ".mdx", ".rst", ".adoc", ".org", ".html", ".ipynb", ".pdf"})


class Copy(Protocol):
    """A repository on this machine."""

    @property
    def objects(self) -> Objects:
        """What is in it."""
        ...

    def heads(self, branches: Sequence[str]) -> Mapping[str, str]:
        """The newest commits of these branches, or of the default branch, under the name "". Raises SourceError."""
        ...

    def is_whole(self) -> bool:
        """Whether nothing in it is known to be missing."""
        ...

    def check(self) -> None:
        """Raises SourceError where something is missing because all of it is."""
        ...

    def distrust(self) -> None:
        """Something in it could not be read."""
        ...

    def close(self) -> None:
        """End what reads it."""
        ...


class Code:
    """The listing of a repository's files. `name` begins their locators; `page` is that of the repository, if it has one.

    `pushed` is when the host says that somebody pushed last: where that is known already, git is not asked.
    """

    def __init__(
        self,
        name: str,
        copy: Copy,
        branches: Sequence[str],
        rules: FileRules,
        max_bytes: int,
        page: str,
        pushed: datetime | None = None,
    ) -> None:
        self._name = name
        self._copy = copy
        self._branches = tuple(branches)
        self._rules = rules
        self._max_bytes = max_bytes
        self._page = page
        self._pushed = pushed
        self._push_mark = f"{name}:pushed"

    def owns(self, name: str) -> bool:
        """As `Listing.owns`."""
        return is_file(name) and name.partition(":")[0].partition("@")[0] == self._name

    def changes(self, known: Known, *, deep: bool) -> Iterator[Change]:
        """As `Listing.changes`. A copy in which something cannot be read is made anew by the next listing."""
        push = self._push()
        if push and known.marks().get(self._push_mark) == push and not deep and self._copy.is_whole():
            return
        try:
            heads = self._copy.heads(self._branches)
        except AccessDenied as error:
            if not is_wiki(self._name):
                yield from self._unseen(error)
                return
            # GitHub says of nearly every repository that it has a wiki. One without a page is not there for git.
            heads = {}
        try:
            yield from self._of_branches(heads, known, deep=deep)
        except Damaged:
            self._copy.check()
            self._copy.distrust()
            raise SourceUnavailable(
                "something in the repository cannot be read; it is copied anew: sync again"
            ) from None
        yield Checkpoint({self._push_mark: push})

    def expect(self, items: Sequence[Item]) -> None:
        """As `Listing.expect`: what is on this machine needs no reading ahead."""

    def fetch(self, item: Item) -> RawContent:
        """As `Listing.fetch`: git has every version for some time, so it is the listed one, whatever came after it."""
        data = self._copy.objects.read(item.version, self._max_bytes)
        if data is None:
            self._copy.check()
            self._copy.distrust()
            raise FetchFailed("git cannot read its content; the next sync looks for it again")
        head = data[:_HEAD]
        if head.startswith(_LARGE_FILE_POINTER):
            raise Skipped(SkipReason.UNSUPPORTED)
        if self._rules.leaves_out_generated and _MADE_BY_PROGRAM.search(head):
            raise Skipped(SkipReason.EXCLUDED)
        path = item.locator.partition(":")[2]
        name = path.rpartition("/")[2]
        title = None if PurePosixPath(name).suffix.lower() in _TITLED_THEMSELVES else name
        metadata = {"repository": self._name, "path": path}
        if self._page:
            metadata["url"] = self._shown(_branch_of(item.locator), path)
        return RawContent(data, name=name, title=title, metadata=metadata)

    def close(self) -> None:
        """As `Listing.close`."""
        self._copy.close()

    # ── what is different ─────────────────────────────────────────────────────────────────────────────────────────────

    def _of_branches(self, heads: Mapping[str, str], known: Known, *, deep: bool) -> Iterator[Change]:
        marks = known.marks()
        for branch, commit in heads.items():
            prefix = self._prefix(branch)
            told = f"{commit} {self._rules.digest}"
            before, _, rules = marks.get(_mark(prefix), "").partition(" ")
            if marks.get(_mark(prefix)) == told and not deep:
                continue
            if marks.get(_mark(prefix), told) != told:
                # What is told by a listing that is cut short may be taken back by the commit after it, and between that one
                # and the commit of the mark there is no difference.
                yield Checkpoint({_mark(prefix): None})
            listed = _Listed(self._copy.objects, commit, prefix, self._rules)
            differences = None if deep or rules != self._rules.digest else self._since(before, commit)
            said = listed.all(known) if differences is None else listed.changed(differences)
            yield from _checkpointed(said)
            yield Checkpoint({_mark(prefix): told})
        yield from self._left(known, heads)

    def _since(self, before: str, commit: str) -> list[Difference] | None:
        """What a sync that knew an earlier commit has not seen; None where that is not here, or where all may be different."""
        if not self._copy.objects.has(before):
            return None
        found = self._copy.objects.differences(before, commit)
        places = (place for one in found for place in (one.was, one.entry and one.entry.path) if place)
        return None if any(PurePosixPath(place).name == _ATTRIBUTES for place in places) else found

    def _left(self, known: Known, heads: Mapping[str, str]) -> Iterator[Change]:
        """What is known of branches that are not there any more, or not read any more."""
        wanted = set(self._branches or ("",))
        for container in sorted(filter(self.owns, known.containers())):
            branch = _branch_of(container)
            if branch in heads:
                continue
            for locator, old in sorted(known.within(container).items()):
                if branch in wanted:
                    yield Tombstone(locator)
                else:
                    yield from now_excluded(locator, container, old)
        told = (key for key in known.marks() if self.owns(key) and key.endswith(_TOLD))
        yield Checkpoint({key: None for key in told if _branch_of(key) not in heads})

    def _shown(self, branch: str, path: str) -> str:
        """Where a person can see a file."""
        if is_wiki(self._name):
            return f"{self._page}/wiki/{quote(PurePosixPath(path).stem)}"
        return f"{self._page}/blob/{quote(branch or 'HEAD')}/{quote(path)}"

    def _unseen(self, error: AccessDenied) -> Iterator[Change]:
        """One of several repositories that may not be read keeps what is known of it, and stands as one failed item.

        Without its marks all of it is compared when it can be read again, and what is no file of it leaves.
        """
        container = f"{self._name}:"
        yield Failure(Item(container, container, "unseen"), error)
        yield Checkpoint(
            {self._push_mark: None, **{_mark(self._prefix(branch)): None for branch in self._branches or ("",)}}
        )

    def _push(self) -> str | None:
        """What is known when all was told that was pushed until then; None where more may have come in the same second."""
        if self._pushed is None or datetime.now(UTC) - self._pushed < _SETTLED:
            return None
        return f"{self._pushed:%FT%TZ} {self._rules.digest} {','.join(self._branches)}"

    def _prefix(self, branch: str) -> str:
        """What stands before the path in a locator."""
        return f"{self._name}@{branch}:" if branch else f"{self._name}:"


class _Listed:
    """One commit, as items of one branch."""

    def __init__(self, objects: Objects, commit: str, prefix: str, rules: FileRules) -> None:
        self._objects = objects
        self._commit = commit
        self._prefix = prefix
        self._rules = rules
        self._attributes = Attributes(objects, commit)

    def changed(self, differences: Iterable[Difference]) -> Iterator[Change]:
        """What the differences to another commit mean; what git calls a rename came from there, changed or not."""
        for one in differences:
            if one.was is not None:
                yield Tombstone(self._prefix + one.was)
            if one.entry is not None and self._rules.selects(one.entry.path):
                came_from = None if one.was is None else self._prefix + one.was
                yield self._told(one.entry, came_from)

    def all(self, known: Known) -> Iterator[Change]:
        """Every file, compared with what is known: first what is gone or different, then what is new."""
        folders: defaultdict[str, list[TreeEntry]] = defaultdict(list)
        for entry in self._objects.files(self._commit):
            folders[self._container(entry.path)].append(entry)
        new: list[TreeEntry] = []
        for container in sorted(c for c in known.containers() if c.startswith(self._prefix)):
            here = dict(known.within(container))
            for entry in folders.pop(container, ()):
                old = here.pop(self._prefix + entry.path, None)
                if old is None:
                    new.append(entry)
                else:
                    yield from self._compared(entry, old)
            yield from map(Tombstone, sorted(here))
        for entry in (*new, *(entry for container in sorted(folders) for entry in folders[container])):
            if self._rules.selects(entry.path):
                yield self._told(entry)

    def _compared(self, entry: TreeEntry, old: KnownItem) -> Iterator[Change]:
        """A file that is known; one that a rule leaves out since then is skipped, for it is not gone."""
        if not self._rules.selects(entry.path):
            yield from now_excluded(self._prefix + entry.path, self._container(entry.path), old)
        elif (told := self._told(entry)).item.version != old.version:
            yield told

    def _told(self, entry: TreeEntry, came_from: str | None = None) -> Upsert | Skip:
        unwanted = self._rules.unwanted(entry, self._attributes)
        if unwanted is None:
            return Upsert(self._item(entry), came_from)
        return Skip(self._item(entry, *unwanted), unwanted.reason)

    def _item(self, entry: TreeEntry, reason: SkipReason | None = None, what: str = "") -> Item:
        return Item(
            locator=self._prefix + entry.path,
            container=self._container(entry.path),
            version=f"{entry.blob}+{reason}" if reason else entry.blob,
            # Of empty files any could be any other.
            identity=None if reason or entry.blob in _EMPTY_BLOBS else entry.blob,
            size=entry.size,
            attributes={"type": what} if what else {},
        )

    def _container(self, path: str) -> str:
        return self._prefix + path.rpartition("/")[0]


def _checkpointed(changes: Iterable[Change]) -> Iterator[Change]:
    """The changes, with places to stop at. No mark is set there: what was said is not said again for what is known by then."""
    for number, change in enumerate(changes, 1):
        yield change
        if number % _CHANGES_PER_CHECKPOINT == 0:
            yield Checkpoint()


def _branch_of(name: str) -> str:
    return name.partition(":")[0].partition("@")[2]


def _mark(prefix: str) -> str:
    return f"{prefix}{_TOLD}"
