"""List the files of a repository: report the differences between its commits and the known items."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import PurePosixPath
from urllib.parse import quote

from catchment.contracts import Known
from catchment.errors import AccessDenied, FetchFailed, Skipped, SkipReason, SourceUnavailable
from catchment.model import Change, Checkpoint, Failure, Item, KnownItem, RawContent, Skip, Tombstone, Upsert
from connectors.folders.excluded import no_longer_listed, now_excluded
from connectors.github.git.clone import Clone
from connectors.github.git.file_selection import Attributes, FileRules
from connectors.github.git.mirror import Mirror
from connectors.github.git.objects import Damaged, Difference, Objects, TreeEntry
from connectors.github.names import is_file, is_wiki

_CHANGES_PER_CHECKPOINT = 1_000
_MARK_SUFFIX = "/"
"""Suffix of a branch's mark."""
_LISTED_SUFFIX = "/listed"
"""Suffix of the mark of a branch while a listing is unfinished: the commit that was listed before."""
_SETTLED = timedelta(minutes=1)
_ATTRIBUTES = ".gitattributes"
_EMPTY_BLOBS = frozenset(
    {
        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
    }
)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_GENERATED = re.compile(rb"^.{0,8}Code generated .{0,200}DO NOT EDIT|^.{0,8}@generated\b", re.MULTILINE)
_WRITTEN = "written"
"""Mark in the version of a file that `.gitattributes` says is not generated, so that a change there reads it again."""
_HEAD = 2_048
_WITH_OWN_TITLE = frozenset({".md", ".markdown", ".mdx", ".rst", ".adoc", ".org", ".html", ".ipynb", ".pdf"})


class Code:
    """The listing of a repository's files. `name` is the prefix of their locators; `page` is the repository's web page,
    if any.

    `pushed` is the time of the last push reported by the host. If it is unchanged, git is not run.
    """

    def __init__(
        self,
        name: str,
        copy: Clone | Mirror,
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
        """Return whether a container or mark belongs to this listing."""
        return is_file(name) and name.partition(":")[0].partition("@")[0] == self._name

    def changes(self, known: Known, *, deep: bool) -> Iterator[Change]:
        """Yield changes as `Connector.changes` does, without the `Root`. An unreadable copy is replaced by the next listing.

        A checkpoint of the next listing may cover the last ones.
        """
        push = self._push_state()
        if push and known.marks().get(self._push_mark) == push and not deep and self._copy.is_complete():
            return
        try:
            heads = self._copy.heads(self._branches)
        except AccessDenied as error:
            if not is_wiki(self._name):
                yield from self._inaccessible(error)
                return
            # GitHub reports a wiki for nearly every repository. A wiki without pages does not exist for git.
            heads = {}
        try:
            yield from self._compare_branches(heads, known, deep=deep)
        except Damaged:
            self._copy.mark_damaged()
            raise SourceUnavailable("repository: damaged or incomplete; sync again to copy it afresh") from None
        yield Checkpoint({self._push_mark: push})

    def expect(self, items: Sequence[Item]) -> None:
        """No preparation: the files are on this machine."""

    def fetch(self, item: Item) -> RawContent:
        """Read exactly the listed version: git keeps replaced versions for some time."""
        blob, _, mark = item.version.partition("+")
        data = self._copy.objects.read(blob, self._max_bytes)
        if data is None:
            self._copy.mark_damaged()
            raise FetchFailed("content cannot be read by git; the next sync tries again")
        head = data[:_HEAD]
        if head.startswith(_LFS_POINTER):
            raise Skipped(SkipReason.UNSUPPORTED)
        if self._rules.excludes_generated and mark != _WRITTEN and _GENERATED.search(head):
            raise Skipped(SkipReason.EXCLUDED)
        path = item.locator.partition(":")[2]
        name = path.rpartition("/")[2]
        title = None if PurePosixPath(name).suffix.lower() in _WITH_OWN_TITLE else name
        metadata = {"repository": self._name, "path": path}
        if self._page:
            metadata["url"] = self._url(_branch_of(item.locator), path)
        return RawContent(data, name=name, title=title, metadata=metadata)

    def close(self) -> None:
        self._copy.close()

    # ── comparison ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _compare_branches(self, heads: Mapping[str, str], known: Known, *, deep: bool) -> Iterator[Change]:
        marks = known.marks()
        for branch, commit in heads.items():
            prefix = self._prefix(branch)
            mark = f"{commit} {self._rules.digest}"
            before, _, rules = marks.get(_mark(prefix), marks.get(_listed(prefix), "")).partition(" ")
            if marks.get(_mark(prefix)) == mark and not deep:
                continue
            if marks.get(_mark(prefix), mark) != mark:
                # An interrupted listing may report changes that the next commit reverts, and that commit may equal the
                # marked one.
                yield Checkpoint({_mark(prefix): None, _listed(prefix): before})

            def is_successor(old: str = before, new: str = commit) -> bool:
                return old == new or (bool(old) and self._copy.shares_history(old, new))

            comparison = _Commit(self._copy.objects, commit, prefix, self._rules, is_successor)
            differences = None if deep or rules != self._rules.digest else self._since(before, commit)
            changes = comparison.all(known) if differences is None else comparison.changed(differences)
            yield from _checkpointed(changes)
            yield Checkpoint({_mark(prefix): mark, _listed(prefix): None})
        yield from self._removed_branches(known, heads)

    def _since(self, before: str, commit: str) -> list[Difference] | None:
        """Return the differences since an earlier commit; None if it is missing, or if all files may have changed."""
        if not self._copy.objects.has(before):
            return None
        differences = self._copy.objects.differences(before, commit)
        paths = (path for diff in differences for path in (diff.was, diff.entry and diff.entry.path) if path)
        return None if any(PurePosixPath(path).name == _ATTRIBUTES for path in paths) else differences

    def _removed_branches(self, known: Known, heads: Mapping[str, str]) -> Iterator[Change]:
        """Report the known items of branches that were deleted or deselected."""
        selected = set(self._branches or ("",))
        for container in sorted(filter(self.owns, known.containers())):
            branch = _branch_of(container)
            if branch not in heads:
                yield from no_longer_listed(known, container, is_deleted=branch in selected)
        keys = (key for key in known.marks() if self.owns(key) and key.endswith((_MARK_SUFFIX, _LISTED_SUFFIX)))
        yield Checkpoint({key: None for key in keys if _branch_of(key) not in heads})

    def _url(self, branch: str, path: str) -> str:
        """Return the web page of a file."""
        if is_wiki(self._name):
            return f"{self._page}/wiki/{quote(PurePosixPath(path).stem)}"
        return f"{self._page}/blob/{quote(branch or 'HEAD')}/{quote(path)}"

    def _inaccessible(self, error: AccessDenied) -> Iterator[Change]:
        """Report an inaccessible repository, one of several, as a failing item; its known items are kept.

        Without its marks, all its files are compared when it is accessible again, which removes the failing item.
        """
        container = f"{self._name}:"
        yield Failure(Item(container, container, "unseen"), error)
        yield Checkpoint(
            {self._push_mark: None, **{_mark(self._prefix(branch)): None for branch in self._branches or ("",)}}
        )

    def _push_state(self) -> str | None:
        """Return the mark for the last push; None while further pushes may carry the same second."""
        if self._pushed is None or datetime.now(UTC) - self._pushed < _SETTLED:
            return None
        return f"{self._pushed:%FT%TZ} {self._rules.digest} {','.join(self._branches)}"

    def _prefix(self, branch: str) -> str:
        """Return the part of a locator before the path."""
        return f"{self._name}@{branch}:" if branch else f"{self._name}:"


class _Commit:
    """The files of one commit as items of one branch.

    `is_successor`: whether the commit continues the history of the one listed before, so that it proves deletions. A commit of
    another history may belong to another repository.
    """

    def __init__(
        self, objects: Objects, commit: str, prefix: str, rules: FileRules, is_successor: Callable[[], bool]
    ) -> None:
        self._objects = objects
        self._commit = commit
        self._prefix = prefix
        self._rules = rules
        self._attributes = Attributes(objects, commit)
        self._is_successor = is_successor

    def changed(self, differences: Iterable[Difference]) -> Iterator[Change]:
        """Yield the changes for differences between commits.

        Files that git considers renamed are moved, even if they were edited.
        """
        for diff in differences:
            present = diff.entry is not None and self._rules.selects(diff.entry.path)
            came_from = None if diff.was is None else self._prefix + diff.was
            if came_from is not None:
                yield Tombstone(came_from, versioned=not present and self._proves_deletions)
            if diff.entry is not None and present:
                yield self._change(diff.entry, came_from)

    def all(self, known: Known) -> Iterator[Change]:
        """Compare every file with the known items: first deletions and edits, then new files."""
        folders: defaultdict[str, list[TreeEntry]] = defaultdict(list)
        for entry in self._objects.files(self._commit):
            folders[self._container(entry.path)].append(entry)
        new: list[TreeEntry] = []
        for container in sorted(c for c in known.containers() if c.startswith(self._prefix)):
            known_items = dict(known.within(container))
            for entry in folders.pop(container, ()):
                old = known_items.pop(self._prefix + entry.path, None)
                if old is None:
                    new.append(entry)
                else:
                    yield from self._compare(entry, old)
            yield from (Tombstone(locator, self._proves_deletions) for locator in sorted(known_items))
        for entry in (*new, *(entry for container in sorted(folders) for entry in folders[container])):
            if self._rules.selects(entry.path):
                yield self._change(entry)

    @cached_property
    def _proves_deletions(self) -> bool:
        """Determined only if a file was deleted: a remote repository must first send its history."""
        return self._is_successor()

    def _compare(self, entry: TreeEntry, old: KnownItem) -> Iterator[Change]:
        """Compare a known file. A file that the rules now exclude is skipped, not deleted."""
        if not self._rules.selects(entry.path):
            yield from now_excluded(self._prefix + entry.path, self._container(entry.path), old)
        elif (change := self._change(entry)).item.version != old.version:
            yield change

    def _change(self, entry: TreeEntry, came_from: str | None = None) -> Upsert | Skip:
        unwanted = self._rules.unwanted(entry, self._attributes)
        if unwanted is None:
            mark = _WRITTEN if self._attributes.is_written(entry.path) else ""
            return Upsert(self._item(entry, mark), came_from)
        return Skip(self._item(entry, *unwanted), unwanted.reason)

    def _item(self, entry: TreeEntry, mark: str = "", what: str = "") -> Item:
        return Item(
            locator=self._prefix + entry.path,
            container=self._container(entry.path),
            version=f"{entry.blob}+{mark}" if mark else entry.blob,
            # Empty files are all alike.
            identity=None if what or entry.blob in _EMPTY_BLOBS else entry.blob,
            size=entry.size,
            attributes={"type": what} if what else {},
        )

    def _container(self, path: str) -> str:
        return self._prefix + path.rpartition("/")[0]


def _checkpointed(changes: Iterable[Change]) -> Iterator[Change]:
    """Add checkpoints to the changes.

    They carry no marks: a repeated listing does not report recorded changes again.
    """
    for number, change in enumerate(changes, 1):
        yield change
        if number % _CHANGES_PER_CHECKPOINT == 0:
            yield Checkpoint()


def _branch_of(name: str) -> str:
    return name.partition(":")[0].partition("@")[2]


def _mark(prefix: str) -> str:
    return f"{prefix}{_MARK_SUFFIX}"


def _listed(prefix: str) -> str:
    return f"{prefix}{_LISTED_SUFFIX}"
