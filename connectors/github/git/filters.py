"""Which files of a commit are wanted: the settings' patterns, what `.gitattributes` says, and what is never read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from catchment.model import SkipReason
from connectors.folders import patterns
from connectors.folders.file import to_path
from connectors.folders.patterns import Patterns
from connectors.github.git.git import Objects, TreeEntry

_LARGEST_ATTRIBUTES = 100_000
_WORDS = re.compile(r"[^ \t\r]+")
_MADE_BY_PROGRAMS = (
    "*.min.js *.min.css *.bundle.js *.js.map *.css.map *.pb.go *_pb2.py *_pb2_grpc.py *.pb.cc *.pb.h *.g.dart *.designer.cs "
    "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock Cargo.lock Gemfile.lock composer.lock "
    "poetry.lock Pipfile.lock uv.lock pdm.lock flake.lock go.sum Package.resolved"
)
_FROM_ELSEWHERE = (
    "node_modules/ bower_components/ vendor/ third_party/ third-party/ thirdparty/ Pods/ .yarn/releases/ .yarn/plugins/"
)


class Unwanted(NamedTuple):
    """Why a file that is there becomes no document: the reason, and what the file is."""

    reason: SkipReason
    what: str


class FileRules:
    """What the settings say. `digest` is another one whenever another file may be wanted."""

    def __init__(self, paths: Sequence[str], exclude: Sequence[str], *, generated: bool, max_bytes: int) -> None:
        self._paths = patterns.parse_patterns(paths) if paths else None
        self._exclude = patterns.parse_patterns(exclude) if exclude else None
        self.leaves_out_generated = not generated
        self._max_bytes = max_bytes
        said = repr(
            (patterns.EDITION, tuple(paths), tuple(exclude), generated, max_bytes, _MADE_BY_PROGRAMS, _FROM_ELSEWHERE)
        )
        self.digest = hashlib.blake2b(said.encode(errors="replace"), digest_size=6).hexdigest()

    def selects(self, path: str) -> bool:
        """Whether the patterns want a file; one that they do not is passed over in silence."""
        place = to_path(path)
        if self._exclude is not None and self._exclude.ignores(place):
            return False
        return self._paths is None or self._paths.covers(place)

    def unwanted(self, entry: TreeEntry, attributes: Attributes) -> Unwanted | None:
        """Why a file that the patterns want is not read all the same."""
        if entry.is_submodule:
            return Unwanted(SkipReason.UNSUPPORTED, "submodule")
        if entry.is_link:
            return Unwanted(SkipReason.EXCLUDED, "symbolic link")
        if not {"", ".", "..", ".git"}.isdisjoint(entry.path.split("/")):
            return Unwanted(SkipReason.EXCLUDED, "path that leads out of the repository")
        if entry.size is None:
            return Unwanted(SkipReason.TOO_LARGE, "content that was not copied")
        if entry.size > self._max_bytes:
            return Unwanted(SkipReason.TOO_LARGE, "file")
        if self.leaves_out_generated and (what := attributes.origin(entry.path)) is not None:
            return Unwanted(SkipReason.EXCLUDED, what)
        return None


class Attributes:
    """What a commit says of its files in `.gitattributes`, read folder by folder as it is asked for."""

    def __init__(self, objects: Objects, commit: str) -> None:
        self._objects = objects
        self._commit = commit
        self._folders: dict[str, dict[str, Patterns]] = {}

    def origin(self, path: str) -> str | None:
        """What a file is that nobody wrote here: `generated` or `vendored`; None for any other."""
        for what, usual in _DEFAULTS.items():
            said = self._said(path, what)
            if said or (said is None and usual.covers(to_path(path))):
                return what
        return None

    def _said(self, path: str, what: str) -> bool | None:
        """What the nearest file says; None where none does."""
        for folder in _above(path):
            stated = self._of(folder).get(what)
            if stated is not None:
                # Unlike an ignore file, a line about a folder says nothing of the files in it.
                decision = stated.decides(to_path(path.removeprefix(folder).lstrip("/")), folder=False)
                if decision is not None:
                    return decision
        return None

    def _of(self, folder: str) -> dict[str, Patterns]:
        if folder not in self._folders:
            place = to_path(f"{folder}/.gitattributes" if folder else ".gitattributes")
            data = self._objects.read(f"{self._commit}:{place}", _LARGEST_ATTRIBUTES)
            self._folders[folder] = _specs(data.decode("utf-8", "surrogateescape")) if data else {}
        return self._folders[folder]


def _above(path: str) -> Iterator[str]:
    """The folders that a file is in, the nearest first; "" is the top."""
    folder = path
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _specs(text: str) -> dict[str, Patterns]:
    """The patterns of an attributes file, for each thing that a file can be; one that is unset is taken out again."""
    found: dict[str, list[str]] = {}
    for line in patterns.split_lines(text):
        pattern, *attributes = _WORDS.findall(line)[:20] or [""]
        if not pattern or pattern[0] in '#!"' or pattern.startswith("[attr]"):
            continue
        for attribute in attributes:
            name, _, value = attribute.lstrip("-!").partition("=")
            if name.startswith("linguist-"):
                on = attribute[0] not in "-!" and value.lower() not in ("false", "0")
                found.setdefault(name.removeprefix("linguist-"), []).append(pattern if on else f"!{pattern}")
    return {what: patterns.parse_ignore_file(lines) for what, lines in found.items()}


_DEFAULTS = {
    "generated": patterns.parse_patterns(_MADE_BY_PROGRAMS.split()),
    "vendored": patterns.parse_patterns(_FROM_ELSEWHERE.split()),
}
