"""Select the files of a commit: by the settings' patterns, by `.gitattributes`, and by type and size."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from catchment.errors import SkipReason
from connectors.folders import patterns
from connectors.folders.file import to_path
from connectors.folders.patterns import Patterns
from connectors.github.git.objects import Objects, TreeEntry

_MAX_ATTRIBUTES_BYTES = 100_000
_WORDS = re.compile(r"[^ \t\r]+")
_GENERATED = (
    "*.min.js *.min.css *.bundle.js *.js.map *.css.map *.pb.go *_pb2.py *_pb2_grpc.py *.pb.cc *.pb.h *.g.dart *.designer.cs "
    "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock Cargo.lock Gemfile.lock composer.lock "
    "poetry.lock Pipfile.lock uv.lock pdm.lock flake.lock go.sum Package.resolved"
)
_VENDORED = (
    "node_modules/ bower_components/ vendor/ third_party/ third-party/ thirdparty/ Pods/ .yarn/releases/ .yarn/plugins/"
)


class Unwanted(NamedTuple):
    """A skipped file: the reason, and a description of the file."""

    reason: SkipReason
    what: str


class FileRules:
    """The file selection of the settings. `digest` changes whenever the selection may change.

    `missing` is the reason for skipping a file without content: our copies omit large files, a partial clone any file.
    """

    def __init__(
        self,
        paths: Sequence[str],
        exclude: Sequence[str],
        *,
        generated: bool,
        max_bytes: int,
        missing: SkipReason = SkipReason.TOO_LARGE,
    ) -> None:
        self._paths = patterns.parse_patterns(paths) if paths else None
        self._exclude = patterns.parse_patterns(exclude)
        self.excludes_generated = not generated
        self._max_bytes = max_bytes
        self._missing = missing
        settings = repr(
            (patterns.EDITION, tuple(paths), tuple(exclude), generated, max_bytes, missing, _GENERATED, _VENDORED)
        )
        self.digest = hashlib.blake2b(settings.encode(errors="replace"), digest_size=6).hexdigest()

    def selects(self, path: str) -> bool:
        """Return whether the patterns select a file. Other files are omitted, not reported as skipped."""
        file_path = to_path(path)
        if self._exclude.ignores(file_path):
            return False
        return self._paths is None or self._paths.covers(file_path)

    def unwanted(self, entry: TreeEntry, attributes: Attributes) -> Unwanted | None:
        """Return why a selected file is skipped; None if it is read."""
        if entry.is_submodule:
            return Unwanted(SkipReason.UNSUPPORTED, "submodule")
        if entry.is_link:
            return Unwanted(SkipReason.EXCLUDED, "symbolic link")
        if not {"", ".", "..", ".git"}.isdisjoint(entry.path.split("/")):
            return Unwanted(SkipReason.EXCLUDED, "path outside the repository")
        if entry.size is None:
            return Unwanted(self._missing, "content not stored")
        if entry.size > self._max_bytes:
            return Unwanted(SkipReason.TOO_LARGE, "file")
        if self.excludes_generated and (what := attributes.origin(entry.path)) is not None:
            return Unwanted(SkipReason.EXCLUDED, what)
        return None


class Attributes:
    """The `.gitattributes` of a commit, read folder by folder on demand."""

    def __init__(self, objects: Objects, commit: str) -> None:
        self._objects = objects
        self._commit = commit
        self._folders: dict[str, dict[str, Patterns]] = {}

    def origin(self, path: str) -> str | None:
        """Return `generated` or `vendored` for a file not written in this repository; None for other files."""
        for what, usual in _DEFAULTS.items():
            settings = self._attribute(path, what)
            if settings or (settings is None and usual.covers(to_path(path))):
                return what
        return None

    def is_written(self, path: str) -> bool:
        """Return whether a `.gitattributes` marks a file as not generated, which precedes its name and content."""
        return self._attribute(path, "generated") is False

    def _attribute(self, path: str, what: str) -> bool | None:
        """Return the attribute set by the nearest file; None if no file sets it."""
        for folder in _parents(path):
            attribute_patterns = self._folder_attributes(folder).get(what)
            if attribute_patterns is not None:
                # Unlike in an ignore file, a pattern for a folder does not apply to the files in it.
                decision = attribute_patterns.decides(to_path(path.removeprefix(folder).lstrip("/")), folder=False)
                if decision is not None:
                    return decision
        return None

    def _folder_attributes(self, folder: str) -> dict[str, Patterns]:
        if folder not in self._folders:
            file_path = to_path(f"{folder}/.gitattributes" if folder else ".gitattributes")
            data = self._objects.read(f"{self._commit}:{file_path}", _MAX_ATTRIBUTES_BYTES)
            self._folders[folder] = _specs(data.decode("utf-8", "surrogateescape")) if data else {}
        return self._folders[folder]


def _parents(path: str) -> Iterator[str]:
    """Yield the folders above a file, the nearest first; "" is the top."""
    folder = path
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _specs(text: str) -> dict[str, Patterns]:
    """Return the patterns of an attributes file by `linguist-` attribute.

    An unset attribute becomes a negated pattern.
    """
    specs: dict[str, list[str]] = {}
    for line in patterns.split_lines(text):
        pattern, *attributes = _WORDS.findall(line)[:20] or [""]
        if not pattern or pattern[0] in '#!"' or pattern.startswith("[attr]"):
            continue
        for attribute in attributes:
            name, _, value = attribute.lstrip("-!").partition("=")
            if name.startswith("linguist-"):
                on = attribute[0] not in "-!" and value.lower() not in ("false", "0")
                specs.setdefault(name.removeprefix("linguist-"), []).append(pattern if on else f"!{pattern}")
    return {what: patterns.parse_ignore_file(lines) for what, lines in specs.items()}


_DEFAULTS = {
    "generated": patterns.parse_patterns(_GENERATED.split()),
    "vendored": patterns.parse_patterns(_VENDORED.split()),
}
