"""The documents of a bundle compared with the library: unchanged, changed or deleted."""

from __future__ import annotations

import json
import tarfile
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from catchment.audit import verify
from catchment.audit.signed_log import read
from catchment.audit.signing import log_and_key
from catchment.errors import BadInput, NotFound, Refused
from catchment.ledger import Ledger
from catchment.runtime import atomic_files
from catchment.runtime.home import Home

_BLOCK = tarfile.BLOCKSIZE
_PART = 1 << 20


class Fate(StrEnum):
    """The state of a document of a bundle today."""

    SAME = "same"
    CHANGED = "changed"
    """Made from another content."""
    OTHER_TEXT = "other text"
    """Made from the same content by other code."""
    GONE = "gone"


class KeyOwner(StrEnum):
    """The owner of the key that signed a bundle."""

    HOME = "the key of this home"
    FORMER = "a former key of this home"
    NAMED = "the key that was named"


@dataclass(frozen=True, slots=True)
class Compared:
    """The fate of each document of a bundle, by number, and the number of documents that it does not have.

    `key` signed the bundle; `owner`: the reason to trust it.
    """

    fates: dict[int, Fate]
    new: int
    key: str
    owner: KeyOwner


def compare(home: Home, ledger: Ledger, file: Path, key: str | None = None) -> Compared:
    """Compare the documents of a bundle with the library of today.

    `key`: the key that must have signed it; None: the present key of this home or an earlier one.
    Raises NotFound without such a file, BadInput if it is not a bundle or was changed, Refused if an unknown key signed it.
    """
    if not file.is_file():
        raise NotFound(f"{file.name}: no such file; name one that `catchment audit export` wrote")
    then = {}
    with atomic_files.explained(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            unpack(file, folder)
            bundle = verify.bundle(folder)
        except (verify.Broken, tarfile.TarError, ValueError, LookupError, TypeError, RecursionError) as error:
            detail = f": {error}" if isinstance(error, verify.Broken) else ""
            raise BadInput(f"{file.name}: not an intact audit bundle{detail}; use the original file") from error
        owner = _owner(home, file.name, bundle.key, key)
        with (folder / "artifacts.jsonl").open(encoding="utf-8") as lines:
            for artifact in map(json.loads, lines):
                then[artifact["id"]] = (artifact["hash"], artifact["text"])
    with ledger.trail() as trail:
        source_id = None if bundle.source is None else trail.source_id(bundle.source)
        now = {artifact["id"]: (artifact["hash"], artifact["text"]) for artifact in trail.artifacts(source_id)}
    fates = {number: _fate(artifact, now.get(number)) for number, artifact in then.items()}
    return Compared(fates, len(now.keys() - then.keys()), bundle.key, owner)


def unpack(file: Path, folder: Path) -> None:
    """Write the files of a bundle into a folder, which then needs as much space as the bundle itself.

    Raises TarError for any entry but a plain file of a bundle, once each. `tarfile` would also read other kinds of entries,
    some of which stand for more bytes than they take.
    """
    expected = {*verify.FILES, "checkpoint.txt", "manifest.json"}
    with file.open("rb") as tar:
        while (block := tar.read(_BLOCK)).strip(b"\0"):
            entry = tarfile.TarInfo.frombuf(block, "ascii", "strict")
            if entry.type != tarfile.REGTYPE or entry.name not in expected or entry.size < 0:
                raise tarfile.TarError("an entry does not belong in a bundle")
            expected.remove(entry.name)
            with (folder / entry.name).open("xb") as target:
                _copy(tar, target, entry.size)
            tar.seek(-entry.size % _BLOCK, 1)


def _copy(tar: IO[bytes], target: IO[bytes], size: int) -> None:
    while size:
        part = tar.read(min(size, _PART))
        if not part:
            raise tarfile.TarError("the file ends within an entry")
        target.write(part)
        size -= len(part)


def _owner(home: Home, name: str, key: str, expected: str | None) -> KeyOwner:
    """Return the owner of the key of a bundle. Raises Refused for an unknown owner."""
    if expected is not None:
        if key == expected:
            return KeyOwner.NAMED
        raise Refused(f"{name}: signed with another key, {key}; ask the sender of the bundle for the key")
    lines, present = log_and_key(home)
    if key == present:
        return KeyOwner.HOME
    signed = read(lines)
    if key in {line.key for line in signed} and signed[-1].key == present and not any(line.problem for line in signed):
        return KeyOwner.FORMER
    raise Refused(
        f"{name}: signed with {key}, which is not a key of this home; "
        "if the sender of the bundle confirms that it is theirs, pass --key KEY"
    )


def _fate(then: tuple[str, str], now: tuple[str, str] | None) -> Fate:
    if now is None:
        return Fate.GONE
    if then == now:
        return Fate.SAME
    return Fate.OTHER_TEXT if then[0] == now[0] else Fate.CHANGED
