"""The documents of a bundle compared with the library: unchanged, changed or deleted."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from catchment.audit import verify
from catchment.errors import BadInput, NotFound
from catchment.ledger import Ledger


class Fate(StrEnum):
    """The state of a document of a bundle today."""

    SAME = "same"
    CHANGED = "changed"
    """Made from another content."""
    OTHER_TEXT = "other text"
    """Made from the same content by other code."""
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Compared:
    """The fate of each document of a bundle, by number, and the number of documents that it does not have."""

    fates: dict[int, Fate]
    new: int


def compare(ledger: Ledger, file: Path) -> Compared:
    """Compare the documents of a bundle with the library of today.

    Raises NotFound without such a file, BadInput if it is no bundle or was changed.
    """
    then = {}
    source = None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            unpack(file, folder)
            manifest, _ = verify.bundle(folder)
            source = manifest["source"]
            with (folder / "artifacts.jsonl").open(encoding="utf-8") as lines:
                for one in map(json.loads, lines):
                    then[one["id"]] = (one["hash"], one["text"])
        except FileNotFoundError:
            raise NotFound(f"{file.name}: no such file; name one that `catchment audit export` wrote") from None
        except (verify.Broken, tarfile.TarError, ValueError, KeyError, TypeError) as error:
            detail = f": {error}" if isinstance(error, verify.Broken) else ""
            raise BadInput(f"{file.name}: not an intact audit bundle{detail}; use the original file") from error
    source_id = ledger.sources.get(source).id if source else None
    with ledger.trail() as trail:
        now = {one["id"]: (one["hash"], one["text"]) for one in trail.artifacts(source_id)}
    fates = {number: _fate(made, now.get(number)) for number, made in then.items()}
    return Compared(fates, len(now.keys() - then.keys()))


def unpack(file: Path, folder: Path) -> None:
    """Write the files of a bundle into the folder. Raises TarError for any entry but a plain file with a plain name.

    Python 3.11.2, which Debian has, does not know the filters of `tarfile`.
    """
    with tarfile.open(file) as tar:
        for entry in tar:
            content = tar.extractfile(entry) if entry.isfile() else None
            if content is None or not re.fullmatch(r"[a-z][a-z.]*", entry.name):
                raise tarfile.TarError(f"{entry.name!r} does not belong in a bundle")
            with content, (folder / entry.name).open("xb") as made:
                shutil.copyfileobj(content, made)


def _fate(then: tuple[str, str], now: tuple[str, str] | None) -> Fate:
    if now is None:
        return Fate.GONE
    if then == now:
        return Fate.SAME
    return Fate.OTHER_TEXT if then[0] == now[0] else Fate.CHANGED
