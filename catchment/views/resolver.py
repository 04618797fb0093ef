"""Names of items and documents: a number, a path in a source, a path on the disk, a file name or a title.

All commands and the tools of assistants resolve names here. An assistant's ledger holds the shared sources only.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from catchment.errors import Ambiguous, NotFound
from catchment.ledger import match_name
from catchment.model import PART
from catchment.runtime.home import expanded

if TYPE_CHECKING:
    from catchment.ledger import ItemRow, Ledger
    from catchment.settings import SourceSettings

Settings = Callable[[], Mapping[str, "SourceSettings"]]
"""Returns the settings of the sources by name. Called only for paths on the disk, because they take long to load."""

_NUMBER = re.compile(r"#?([0-9]{1,18})")
_PATH = re.compile(r"~|/|\.\.?/")
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_SHOWN = 10


class NameMatches(NamedTuple):
    """The items with a name.

    Attributes:
        items: The best matches, present items first: several if the name is ambiguous.
        others: Weaker matches, best first.
        is_exact: The name is the number of a document, or a whole path.
        of_job: The item of the job that has the name as its number, if that is another item. Lists of quarantined items show
            this number.
    """

    items: Sequence[ItemRow]
    others: Sequence[ItemRow]
    is_exact: bool
    of_job: Sequence[ItemRow] = ()

    @property
    def listed(self) -> Sequence[ItemRow]:
        """The items to list: a whole path or a number excludes weaker matches."""
        return [*self.items, *self.of_job, *(() if self.is_exact else self.others)]


class NamedDocument(NamedTuple):
    """The document that a name stands for, and the other documents that have the name in part."""

    number: int
    others: Sequence[ItemRow]


def find(
    ledger: Ledger, name: str, settings: Settings, source: str | None = None, *, looks_at_disk: bool = True
) -> NameMatches:
    """Return the items with this name, in any state. `source`: only in this source.

    A number, with or without `#`, is that of a document, and of a job in `of_job`. A path on the disk is that of a file in the
    folder of a source. A web address may have a fragment and parts for tracking, which no locator has. Any other name is
    matched by `match_name`, or is the whole title of a document. Unless `looks_at_disk`, links on the disk are not
    followed, and relative paths are names.
    """
    number = _NUMBER.fullmatch(name)
    if number:
        numbered = (ledger.intake.of_document(int(number[1])), ledger.intake.of_job(int(number[1])))
        document_items, of_job = ([row] if row and source in (None, row.source) else [] for row in numbered)
        others = [] if name.startswith("#") else ledger.intake.find(name, source)
        if document_items or of_job:
            others = [row for row in others if row not in document_items]
            of_job = [row for row in of_job if row not in document_items]
            return NameMatches(document_items, others, bool(document_items), of_job)
    is_path = bool(_PATH.match(name)) or (looks_at_disk and os.path.lexists(name))
    rows = [] if is_path else ledger.intake.find(name, source)
    # A relative path of a file that was deleted is no other name.
    if is_path or (looks_at_disk and not rows):
        inside = places(name, _chosen(settings(), source), looks_at_disk=looks_at_disk)
        if at := [row for source_name, locator in inside.items() for row in _at(ledger, source_name, locator)]:
            return NameMatches(at, [], is_exact=True)
        rows = ledger.intake.find(name, source) if is_path else []
    if not rows and _ADDRESS.match(name):
        for source_name, source_settings in _chosen(settings(), source).items():
            if locator := source_settings.locator_of_address(name):
                rows = [*rows, *_at(ledger, source_name, locator)]
        return NameMatches(rows, [], is_exact=bool(rows))
    return _ranked_matches(name, rows)


def _chosen(settings: Mapping[str, SourceSettings], source: str | None) -> Mapping[str, SourceSettings]:
    return {name: its for name, its in settings.items() if source in (None, name)}


def document(ledger: Ledger, name: str, settings: Settings) -> NamedDocument:
    """Return the document with this name. Raises NotFound, or Ambiguous with the choices, if it is not one."""
    best, others = _best(ledger, name, settings)
    number = _single(ledger, name, best if best and best[0].document is not None else best[:1]).document
    if number is None:
        raise NotFound(f"{name!r}: not in the library; the reason: catchment why {name}")
    return NamedDocument(number, others)


def item(ledger: Ledger, name: str, settings: Settings) -> ItemRow:
    """Return the item with this name, which may be deleted, or have had the name before a move. Raises as `document`."""
    best, _ = _best(ledger, name, settings)
    # Of items that were deleted at the same path, the last one.
    return _single(ledger, name, list({(row.source, row.locator): row for row in reversed(best)}.values())[::-1])


def _best(ledger: Ledger, name: str, settings: Settings) -> tuple[list[ItemRow], list[ItemRow]]:
    """Return the items with this name, and weaker matches. Ignores items without a document if any has one."""
    matches = find(ledger, name, settings)
    every = [*matches.items, *matches.others]
    items = [row for row in every if row.document is not None] or every
    best = [row for row in matches.items if row in items] or [*_ranked_matches(name, items).items]
    return best, [row for row in items if row not in best]


def _single(ledger: Ledger, name: str, best: Sequence[ItemRow]) -> ItemRow:
    if not best:
        raise NotFound(_not_found_message(ledger, name))
    if len(best) > 1:
        choices = [
            f"{'deleted' if row.document is None else f'#{row.document}'} {row.source}: {row.locator}" for row in best
        ]
        remainder = [f"and {len(choices) - _SHOWN} more"] if len(choices) > _SHOWN else []
        problem = f"{name!r}: {len(choices)} documents have this name; give the number of one"
        raise Ambiguous(problem, (*choices[:_SHOWN], *remainder))
    return best[0]


def places(name: str, settings: Mapping[str, SourceSettings], *, looks_at_disk: bool = True) -> dict[str, str]:
    """Return the sources whose folder contains this path, with its locator in each. The file may be missing."""
    file = Path(os.path.abspath(expanded(Path(name))))  # noqa: PTH100 - must not resolve a symbolic link
    files = [file]
    if looks_at_disk:
        file = spelled(file)
        files = [file, file.parent.resolve() / file.name]
    return {
        source: locator
        for source, source_settings in settings.items()
        if (locator := next(filter(None, map(source_settings.locator_of, files)), None)) is not None
    }


def spelled(path: Path) -> Path:
    """Return the path with accents encoded as on the disk. Missing parts stay unchanged."""
    if str(path).isascii() or os.path.lexists(path):
        return path
    folder = spelled(path.parent)
    with suppress(OSError):
        for file in folder.iterdir():
            if _composed(file.name) == _composed(path.name):
                return file
    return folder / path.name


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _at(ledger: Ledger, source: str, locator: str) -> list[ItemRow]:
    rows = ledger.intake.find(locator, source)
    return [row for row in rows if _composed(row.locator) == _composed(locator)]


def _ranked_matches(name: str, rows: Sequence[ItemRow]) -> NameMatches:
    """Separate the best matches from the others."""
    best_rank = min((_rank(name, row) for row in rows), default=None)
    best = [row for row in rows if _rank(name, row) == best_rank]
    others = [row for row in rows if row not in best]
    match = match_name(best[0].locator, name) if best else None
    return NameMatches(best, others, is_exact=match is not None and match.is_whole)


def _rank(name: str, row: ItemRow) -> tuple[object, ...]:
    """Return how well an item matches; smaller is better. A message stands before the files that are attached to it."""
    match = match_name(row.locator, name)
    return match is None, match or (), PART in row.locator and PART not in name


def _not_found_message(ledger: Ledger, name: str) -> str:
    if close := ledger.intake.similar(name):
        return f"{name!r}: no such document; did you mean {' or '.join(close)}?"
    return f"{name!r}: no such document; `catchment search` finds documents, `catchment why` explains missing ones"
