"""The history and the bookmarks of a browser: of a profile of Firefox, or of Chrome, Chromium, Edge, Brave and Vivaldi."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import Field

from catchment.content.foreign_json import read_json
from catchment.contracts import Manifest
from catchment.errors import BadInput, ParseError, SourceUnavailable
from catchment.settings import FullPath, SourceSettings, expanded
from connectors.listing import Entry, Listing

_FIREFOX, _CHROME, _BOOKMARKS = "places.sqlite", "History", "Bookmarks"
_TRIES = 3
_VISITS = {
    _FIREFOX: """
        SELECT visit_date / 1000000, title, url FROM moz_historyvisits JOIN moz_places ON moz_places.id = place_id
        WHERE visit_type NOT IN (4, 8) ORDER BY visit_date""",  # without embedded pages and frames
    _CHROME: """
        SELECT visit_time / 1000000 - 11644473600, title, urls.url FROM visits JOIN urls ON urls.id = visits.url
        WHERE NOT hidden ORDER BY visit_time""",  # since 1601
}
_FIREFOX_BOOKMARKS = """
    WITH RECURSIVE folders(id, path) AS (
        SELECT id, title FROM moz_bookmarks WHERE guid IN ('menu________', 'toolbar_____', 'unfiled_____', 'mobile______')
        UNION ALL
        SELECT inner.id, path || '/' || coalesce(inner.title, '') FROM moz_bookmarks AS inner
        JOIN folders ON parent = folders.id WHERE type = 2
    )
    SELECT path, moz_bookmarks.title, url FROM folders JOIN moz_bookmarks ON parent = folders.id
    JOIN moz_places ON moz_places.id = fk WHERE type = 1 ORDER BY path, position"""


class BrowserSettings(SourceSettings):
    """Settings of a `browser` source."""

    identity: ClassVar[tuple[str, ...]] = ("profile",)
    profile: FullPath = Field(title="Profile", description="Full path of a folder with places.sqlite or History")
    assistants: bool = Field(
        False, title="Assistants", description="Let assistants (`catchment mcp`) search and read this history"
    )

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for the path of a profile."""
        profile = expanded(Path(location)).absolute()
        if not any((profile / name).is_file() for name in _VISITS):
            raise BadInput(
                f"{profile.name!r}: no profile of a browser; its path is on about:profiles or chrome://version"
            )
        return {"profile": profile}


class Browser(Listing):
    """The connector for a browser: a document for each day, and one for each folder of bookmarks."""

    kind: ClassVar[str] = "browser"
    manifest: ClassVar[Manifest] = Manifest(
        "Browser",
        "the history and the bookmarks of a browser",
        place="Profile: path of its folder, from about:profiles or chrome://version",
        example="~/.mozilla/firefox/k2xw81tb.default-release",
        level="silver",
        exempt={"moves": "a day is known by its date"},
    )
    settings: ClassVar[type[SourceSettings]] = BrowserSettings

    def entries(self) -> Iterator[Entry]:
        profile: Path = self.configured.profile
        database = next((name for name in _VISITS if (profile / name).is_file()), None)
        if database is None:
            raise SourceUnavailable(f"{profile.name!r}: no profile of a browser; mount its disk, or move it back")
        with TemporaryDirectory(prefix="catchment-") as folder:
            try:
                _copy(profile, (database, f"{database}-wal", f"{database}-journal", _BOOKMARKS), Path(folder))
            except OSError as error:
                problem = error.strerror or "cannot be copied"
                raise SourceUnavailable(f"{profile.name!r}: {problem}; check its permissions and the disk") from None
            yield from self.parse(documents, str(Path(folder, database)))


def _copy(profile: Path, names: Sequence[str], folder: Path) -> None:
    """Copy the files that exist, all as they are at one moment. The browser locks its database, and writes at any time."""
    for _ in range(_TRIES):
        before = [_state(profile / name) for name in names]
        for name, state in zip(names, before, strict=True):
            (folder / name).unlink(missing_ok=True)
            if state:
                shutil.copyfile(profile / name, folder / name)
        if before == [_state(profile / name) for name in names]:
            return
    raise SourceUnavailable(f"{names[0]}: the browser is writing; the next sync tries again")


def _state(file: Path) -> tuple[int, int] | None:
    return (file.stat().st_size, file.stat().st_mtime_ns) if file.exists() else None


def documents(database: str) -> list[Entry]:
    """Return the days and the bookmarks of a copied database. Raises ParseError."""
    name, lines = Path(database).name, defaultdict[str, list[str]](list)
    try:
        with closing(sqlite3.connect(database)) as connection:
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            visits = connection.execute(_VISITS[name]).fetchall()
            bookmarks = connection.execute(_FIREFOX_BOOKMARKS).fetchall() if name == _FIREFOX else _of_chrome(database)
        for second, title, url in visits:
            time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
            if url.startswith("http"):
                lines[f"History/{time:%Y-%m-%d}"].append(f"- {time:%H:%M} {_link(title, url)}")
        for path, title, url in bookmarks:
            if url.startswith("http"):
                lines[f"Bookmarks/{' '.join(path.split())}"].append(f"- {_link(title, url)}")
    except (sqlite3.Error, AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise ParseError(f"{name}: not of a known version; start the browser, or upgrade catchment-browser") from None
    return [
        Entry(f"{name}.md", "\n".join([*lines[name], ""]).encode(), title=name.replace("/", ": ", 1)) for name in lines
    ]


def _of_chrome(database: str) -> list[tuple[str, str, str]]:
    file, bookmarks = Path(database).with_name(_BOOKMARKS), []
    roots = read_json(file.read_bytes())["roots"].values() if file.is_file() else ()
    folders = [(root["name"], root) for root in roots if isinstance(root, dict)]
    for path, folder in folders:  # grows meanwhile
        for child in folder["children"]:
            if child["type"] == "folder":
                folders.append((f"{path}/{child['name']}", child))
            else:
                bookmarks.append((path, child["name"], child["url"]))
    return bookmarks


def _link(title: str | None, url: str) -> str:
    text = re.sub(r"([\\`*_#$<>\[\]])", r"\\\1", " ".join((title or url).split()))
    address = re.sub(r"[\s<>]", lambda match: quote(match[0]), url)
    return f"[{text}](<{address}>)"
