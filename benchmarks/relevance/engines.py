"""The compared search engines: Catchment, plain FTS5 over the same texts, and ripgrep or grep over the same files."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
import subprocess
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

from benchmarks.relevance.scores import Engine
from catchment.ledger import DEFAULT_MODEL, Ledger
from catchment.search.meaning.choice import load
from catchment.search.meaning.fill import fill
from catchment.search.meaning.index import MeaningIndex
from catchment.search.results import Lanes
from catchment.search.search import search
from catchment.settings import Home

_LIMIT = 20
_TEXTS = """
SELECT sources.name, items.locator, contents.title, contents.text FROM items
JOIN sources ON sources.id = items.source_id JOIN documents ON documents.item_id = items.id
JOIN contents ON contents.id = documents.content_id
"""


def embedded(ledger: Ledger) -> MeaningIndex:
    """Make the embeddings of a library with the built-in model. Returns the search by meaning, loaded."""
    fill(ledger, load(DEFAULT_MODEL))
    meaning = MeaningIndex(ledger)
    meaning.warm()
    return meaning


def ours(ledger: Ledger, meaning: MeaningIndex | None = None, lanes: Lanes = Lanes.BOTH) -> Engine:
    """Search the ledger as the `search` command does: by words, and by meaning if given, or by meaning alone."""
    now = datetime(2026, 6, 1, 12).astimezone()

    def find(text: str) -> list[str]:
        hits = search(ledger, text, now, meaning=meaning, lanes=lanes, limit=_LIMIT).hits
        return [_path(source, item) for hit in hits for source, item in hit.places]

    return find


@contextmanager
def plain_fts5(home: Home) -> Iterator[Engine]:
    """Search for all words in an FTS5 table of path, title and text, with the default tokenizer and ranking."""
    with closing(sqlite3.connect(":memory:")) as index:
        with closing(sqlite3.connect(home.path / "ledger.db")) as ledger:
            rows = [(_path(source, item), title, text) for source, item, title, text in ledger.execute(_TEXTS)]
        index.execute("CREATE VIRTUAL TABLE texts USING fts5(path, title, text)")
        index.executemany("INSERT INTO texts VALUES (?, ?, ?)", rows)

        def find(text: str) -> list[str]:
            match = " ".join(f'"{word}"' for word in _words(text))
            found = index.execute("SELECT path FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (match, _LIMIT))
            return [path for (path,) in found]

        yield find


def grep(folders: Mapping[str, Path]) -> tuple[str, Engine]:
    """Return the name of the tool, and a search for files that contain all words, sorted by the number of matching lines."""
    ripgrep = shutil.which("rg")
    command = [ripgrep, "-ciF", "--hidden", "-uu"] if ripgrep else ["grep", "-rciF"]

    def count(word: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for source, folder in folders.items():
            said = subprocess.run([*command, "--", word, "."], cwd=folder, capture_output=True, check=False).stdout
            for line in said.decode("utf-8", "replace").splitlines():
                path, _, lines = line.rpartition(":")
                if int(lines):
                    found[_path(source, path.removeprefix("./"))] = int(lines)
        return found

    def find(text: str) -> list[str]:
        counts = [count(word) for word in _words(text)]
        shared = set.intersection(*map(set, counts)) if counts else set()
        return sorted(shared, key=lambda path: (-sum(found[path] for found in counts), path))[:_LIMIT]

    return "ripgrep" if ripgrep else "grep", find


def _words(text: str) -> list[str]:
    """Split a query into words and quoted phrases."""
    try:
        return shlex.split(text)
    except ValueError:
        return re.findall(r'[^\s"]+', text)


def _path(source: str, item: str) -> str:
    return unicodedata.normalize("NFC", f"{source}/{item}" if source == "vault" else item)
