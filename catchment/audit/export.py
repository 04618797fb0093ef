"""Audit bundles: one tar file that anybody can verify with Python alone, byte-identical for the same history.

It has no time, user, host or path of the export. Rows of other sources are left out; the roots of their branches of the
tree prove the rest.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from catchment import __version__
from catchment.audit import verify
from catchment.audit.signing import kept, signing
from catchment.errors import BadInput, Refused
from catchment.ledger import Ledger, Trail, to_micros
from catchment.pacing.operator_rules import ALL
from catchment.runtime import atomic_files
from catchment.runtime.home import Home

_SOURCE_ID, _EVENT = verify.FIELDS.index("source_id"), verify.FIELDS.index("event")


@dataclass(frozen=True, slots=True)
class ExportedBundle:
    """A finished bundle with its signature beside it. `rows`: of `size` rows of the history."""

    file: Path
    signature: Path
    rows: int
    size: int


def export(
    home: Home, ledger: Ledger, target: Path, source: str | None = None, since: datetime | None = None
) -> ExportedBundle:
    """Write a bundle of the whole history, or of one source, or of what happened since a time, and add a checkpoint.

    Raises BadInput if the file exists, NotFound for an unknown source, Refused if the history is broken, TryAgain after a
    restore meanwhile, HomeUnavailable.
    """
    if target.exists():
        raise BadInput(f"{target.name}: exists already; choose another name")
    signature = target.with_name(f"{target.name}.minisig")
    lines, _ = kept(home)
    source_id = ledger.sources.get(source).id if source else None
    with ExitStack() as stack:
        stack.enter_context(atomic_files.explained())
        files = {name: stack.enter_context(tempfile.TemporaryFile(dir=target.parent)) for name in verify.FILES}
        with ledger.trail() as trail:
            rows = _Rows(trail, source_id, since)
            _write(files["history.jsonl"], rows.lines())
            _write(files["jobs.jsonl"], trail.jobs(source_id))
            names = {key: value for key, value in trail.sources().items() if source_id in (None, key)}
            scopes = (
                None if source is None else frozenset({ALL, f"kind:{names[source_id or 0][1]}", f"source:{source}"})
            )
            _write(files["throttles.jsonl"], trail.throttles(scopes))
            _write(files["artifacts.jsonl"], trail.artifacts(source_id))
        files["proof.json"].write(_json([base64.b64encode(each).decode() for each in rows.cover]))
        files["verify.py"].write(Path(verify.__file__).read_bytes())
        # The manifest and both signatures must have one key, which a rotation could replace.
        signer = stack.enter_context(signing(home, since=lines))
        manifest = {
            "version": 1,
            "code": __version__,
            "key": signer.public,
            "source": source,
            "sources": {str(key): {"name": name, "kind": kind} for key, (name, kind) in names.items()},
            "since": None if since is None else rows.since,
            "whole": since is None and not rows.erased,
            "generated_at": rows.latest,
            "size": rows.size,
            "rows": rows.included,
            "files": {name: _digest(file) for name, file in files.items()},
        }
        described = _json(manifest)
        note = signer.note(rows.size, rows.root, f"manifest {hashlib.sha256(described).hexdigest()}").encode()
        whole: dict[str, IO[bytes] | bytes] = {**files, "manifest.json": described, "checkpoint.txt": note}
        fresh = atomic_files.unfinished(target)
        try:
            _pack(fresh, whole)
            comment = f"size:{rows.size} root:{rows.root.hex()}"
            atomic_files.write(signature, signer.minisign(fresh, comment).encode())
            atomic_files.put(fresh, target)
        finally:
            fresh.unlink(missing_ok=True)
        signer.remember(rows.size, rows.root)
    return ExportedBundle(target, signature, rows.included, rows.size)


class _Rows:
    """The rows of the history that belong to a bundle, and the proof that they belong to the tree."""

    def __init__(self, trail: Trail, source_id: int | None, since: datetime | None) -> None:
        self._trail, self._source_id = trail, source_id
        self.since = 0 if since is None else to_micros(since)
        self.size = trail.length
        self.included = self.latest = self.erased = 0
        self.root = verify.Tree().root()
        self.cover: list[bytes] = []

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the included rows. Afterwards the other attributes are complete. Raises Refused if the history is broken."""
        cover = Cover()
        previous, shown = b"", 0
        for row, proof in self._trail.history(_refuse):
            self.latest = max(self.latest, row[1])
            is_erased = row[_EVENT] == verify.ERASED
            wanted = not is_erased and row[1] >= self.since and self._source_id in (None, row[_SOURCE_ID])
            self.erased += is_erased
            cover.add(verify.leaf(proof), shown=wanted)
            if wanted:
                self.included += 1
                line = dict(zip(verify.FIELDS, row, strict=True))
                # Its own predecessor needs no hash.
                yield line if shown == row[0] - 1 else line | {"before": previous.hex()}
                shown = row[0]
            previous = proof
        self.root, self.cover = cover.result()


class Cover:
    """A growing tree that remembers the roots of the branches without a shown leaf, from left to right."""

    def __init__(self) -> None:
        self._branches: list[tuple[int, bytes, list[bytes] | None]] = []

    def add(self, hashed: bytes, *, shown: bool) -> None:
        self._branches.append((1, hashed, [] if shown else None))
        while len(self._branches) > 1 and self._branches[-1][0] == self._branches[-2][0]:
            self._join()

    def result(self) -> tuple[bytes, list[bytes]]:
        """Return the root and the cover."""
        while len(self._branches) > 1:
            self._join()
        if not self._branches:
            return verify.Tree().root(), []
        ((_, root, cover),) = self._branches
        return root, [root] if cover is None else cover

    def _join(self) -> None:
        (n, left, of_left), (m, right, of_right) = self._branches[-2:]
        cover = None
        if of_left is not None or of_right is not None:
            cover = ([left] if of_left is None else of_left) + ([right] if of_right is None else of_right)
        self._branches[-2:] = [(n + m, verify.node(left, right), cover)]


def _refuse(problem: str) -> None:
    raise Refused(f"audit: {problem[:1].lower()}{problem[1:]}; see `catchment audit verify`")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _write(file: IO[bytes], rows: Iterable[Mapping[str, Any]]) -> None:
    file.writelines(map(_json, rows))


def _digest(file: IO[bytes]) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # a real file


def _pack(path: Path, files: Mapping[str, IO[bytes] | bytes]) -> None:
    """Write the files as USTAR, by name. Times and owners are 0."""
    with (
        open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as made,
        tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, content in sorted(files.items()):
            file = io.BytesIO(content) if isinstance(content, bytes) else content
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = file.seek(0, os.SEEK_END), 0o644
            file.seek(0)
            tar.addfile(entry, file)
