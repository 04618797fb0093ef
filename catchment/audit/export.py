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
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from itertools import compress
from pathlib import Path
from typing import IO, Any

import orjson

from catchment import __version__
from catchment.audit import chain, verify
from catchment.audit.signing import log_and_key, signing
from catchment.errors import BadInput, NotFound, Refused
from catchment.ledger import Ledger, to_micros
from catchment.pacing.operator_rules import ALL
from catchment.runtime import atomic_files
from catchment.runtime.home import Home

_AT, _EVENT, _SOURCE_ID = map(verify.FIELDS.index, ("at", "event", "source_id"))


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
    """Write a bundle of the whole history, of one source, or of the rows since a time, and add a checkpoint.

    Raises BadInput if the file exists, NotFound for an unknown source or folder, Refused for a broken history, TryAgain after a
    restore meanwhile, HomeUnavailable.
    """
    if target.exists() or target.is_symlink():
        raise BadInput(f"{target.name}: exists already; choose another name")
    if not target.parent.is_dir():
        raise NotFound(f"{target.parent}: no such folder; create it, or name another one")
    signature = target.with_name(f"{target.name}.minisig")
    lines, key = log_and_key(home)
    with ExitStack() as stack:
        stack.enter_context(atomic_files.explained())
        files = {name: stack.enter_context(tempfile.TemporaryFile(dir=target.parent)) for name in verify.FILES}
        with ledger.trail() as trail:
            source_id = None if source is None else trail.source_id(source)
            rows = _Rows(files["history.jsonl"], source_id, since)
            verified, now, tree = chain.checked(trail, chain.standing(trail, lines, key), rows.write)
            if verified.problems:
                problem = verified.problems[0]
                raise Refused(f"audit: {problem[:1].lower()}{problem[1:]}; see `catchment audit verify`")
            files["jobs.jsonl"].writelines(map(flat, trail.jobs(source_id)))
            names = {key: value for key, value in trail.sources().items() if source_id in (None, key)}
            scopes = (
                None if source is None else frozenset({ALL, f"kind:{names[source_id or 0][1]}", f"source:{source}"})
            )
            files["throttles.jsonl"].writelines(map(_json, trail.throttles(scopes)))
            files["artifacts.jsonl"].writelines(map(flat, trail.artifacts(source_id)))
        files["proof.json"].write(_json([base64.b64encode(root).decode() for root in tree.cover()]))
        files["verify.py"].write(Path(verify.__file__).read_bytes())
        # The manifest and both signatures must have one key, which a rotation could replace.
        signer = stack.enter_context(signing(home, since=lines))
        manifest = {
            "version": 1,
            "code": __version__,
            "key": signer.public,
            "source": source,
            "sources": {str(key): {"name": name, "kind": kind} for key, (name, kind) in names.items()},
            "since": rows.since,
            "whole": since is None and not verified.erased,
            "generated_at": rows.latest,
            "size": now.size,
            "rows": rows.included,
            "files": {name: _digest(file) for name, file in files.items()},
        }
        described = _json(manifest)
        note = signer.note(now.size, now.root, f"manifest {hashlib.sha256(described).hexdigest()}").encode()
        whole: dict[str, IO[bytes] | bytes] = {**files, "manifest.json": described, "checkpoint.txt": note}
        fresh = atomic_files.unfinished(target)
        stack.callback(fresh.unlink, missing_ok=True)
        _pack(fresh, whole)
        signed = signer.minisign(fresh, f"size:{now.size} root:{now.root.hex()}").encode()
        # Before anybody can have the bundle, so that this home's history agrees with it from then on.
        signer.remember(now)
        atomic_files.write(signature, signed)
        atomic_files.put(fresh, target)
    return ExportedBundle(target, signature, rows.included, now.size)


class _Rows:
    """The rows of the history that belong to a bundle."""

    def __init__(self, file: IO[bytes], source_id: int | None, since: datetime | None) -> None:
        self._file, self._source_id = file, source_id
        self.since = None if since is None else to_micros(since)
        self.included = self.latest = 0
        self._proof, self._shown = b"", 0

    def write(self, rows: Sequence[Sequence[Any]], proofs: Sequence[bytes]) -> Sequence[bool]:
        """Write those of the next rows that are included. Return which are."""
        self.latest = max([self.latest, *[row[_AT] for row in rows]])
        included = list(map(self._is_included, rows))
        lines = []
        for row, before in compress(zip(rows, [self._proof, *proofs], strict=False), included):
            line = dict(zip(verify.FIELDS, row, strict=False))
            if self._shown != row[0] - 1:
                # Any other row follows the one before it in the file.
                line["before"] = before.hex()
            lines.append(flat(line))
            self._shown = row[0]
        self._file.writelines(lines)
        self.included += len(lines)
        self._proof = proofs[-1]
        return included

    def _is_included(self, row: Sequence[Any]) -> bool:
        return row[_EVENT] != verify.ERASED and (
            row[_EVENT] == verify.RESTORED
            or (
                (self._source_id is None or row[_SOURCE_ID] == self._source_id)
                and (self.since is None or row[_AT] >= self.since)
            )
        )


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def flat(value: Mapping[str, Any]) -> bytes:
    """Return the same line as `_json` for a flat mapping, six times as fast."""
    line = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    return line if line.isascii() and b"\x7f" not in line else _json(value)


def _digest(file: IO[bytes]) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # a real file


def _pack(path: Path, files: Mapping[str, IO[bytes] | bytes]) -> None:
    """Write the files as USTAR, by name. Times and owners are 0."""
    with (
        open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, content in sorted(files.items()):
            file = io.BytesIO(content) if isinstance(content, bytes) else content
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = file.seek(0, os.SEEK_END), 0o644
            file.seek(0)
            tar.addfile(entry, file)
