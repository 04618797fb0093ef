"""Two folders to search: the example vault, and the documents of documents.yaml among generated notes, code and mail.

The generated documents contain the words that several expected documents share, and each of their rare words twice.
Deterministic for a size, including the dates of the files.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, time
from email.message import EmailMessage
from itertools import permutations
from pathlib import Path
from typing import Any

import yaml

from benchmarks import mail, notes
from benchmarks.engine import sync
from catchment.ledger import Ledger
from catchment.settings import Home

VAULT = Path("examples/vault").absolute()
DOCUMENTS = Path(__file__).with_name("documents.yaml")
_KINDS = {"vault": "obsidian", "generated": "local_files"}
_WRITTEN = date(2026, 4, 1)
_PARTS = """
Http Client Server Session Factory Retry Policy After Token Bucket Limiter Page Writer Reader Snapshot Check Point Runner Value
Stage Rating Date Picker Header Pool Queue Worker Index Cache Graph Node Parser Lexer Config Frame
"""
_CODE = {
    "java": "class {type} {{\n    private int {field};\n\n    void {method}(int count) {{ {field} += count; }}\n}}\n",
    "py": "class {type}:\n    def {method}(self, count):\n        self.{field} = count\n        return count\n",
    "go": "type {type} struct {{ {field} int }}\n\nfunc (x *{type}) {method}(count int) {{ x.{field} += count }}\n",
    "ts": "class {type} {{\n  {field} = 0\n  {method}(count: number): void {{ this.{field} += count }}\n}}\n",
}


@contextmanager
def ingested(place: Path, size: int) -> Iterator[tuple[Home, Mapping[str, Path], Ledger]]:
    """Yield a home with both sources in its library, the folders by source name, and the open ledger. `place` is empty."""
    home, folders = Home(place / "home"), write(place, size)
    for source, folder in folders.items():
        sync(_KINDS[source], folder, home, name=source)
    with closing(Ledger.open(home.database_url)) as ledger:
        yield home, folders, ledger


def write(place: Path, size: int) -> Mapping[str, Path]:
    """Write both folders, with `size` generated documents, to an empty folder. Returns them by source name."""
    vault, generated = place / "vault", place / "generated"
    shutil.copytree(VAULT, vault)
    groups: dict[str, dict[str, Any]] = yaml.safe_load(DOCUMENTS.read_text(encoding="utf-8"))
    modified = {generated / path: day for path, day in groups.pop("modified").items()}
    words, rare = _words(groups, vault)
    count = size * 7 // 10
    notes.generate(generated / "notes", count, words=words)
    _scatter(rare, generated / "notes", count)
    _write(generated, _code(size * 2 // 10))
    letters = mail.corpus(size // 10, words["en"])
    _write(generated, ((f"mail/old/{number:04d}.eml", letter) for number, letter in enumerate(letters)))
    documents = {path: text for group in groups.values() for path, text in group.items()}
    _write(generated, ((path, _bytes(path, text)) for path, text in documents.items()))
    for file in filter(Path.is_file, place.rglob("*")):
        noon = datetime.combine(modified.get(file, _WRITTEN), time(12), UTC).timestamp()
        os.utime(file, (noon, noon))
    return {"vault": vault, "generated": generated}


def _words(groups: Mapping[str, Mapping[str, str]], vault: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Return the words that several expected notes share, by language, for generated notes; and the rare words."""
    pages = {language: list(groups[language].values()) for language in notes.WORDS}
    pages["en"] += [file.read_text(encoding="utf-8", errors="replace") for file in sorted(vault.rglob("*.md"))]
    counts = {language: _counts(texts) for language, texts in pages.items()}
    shared = {
        language: [*words, *sorted(word for word, count in counts[language].items() if count > 1)]
        for language, words in notes.WORDS.items()
    }
    return shared, sorted({word for found in counts.values() for word in found}.difference(*shared.values()))


def _counts(texts: Iterable[str]) -> Counter[str]:
    """Count the texts that contain each word. Ignores words of scripts without spaces."""
    return Counter(word for text in texts for word in set(re.findall(r"[^\W\d_]{3,}", text)) if ord(word[0]) < 0x2E80)


def _scatter(rare: list[str], folder: Path, count: int) -> None:
    """Add each rare word to about two of the `count` generated notes."""
    chance = random.Random("rare")
    for number in range(count):
        some = chance.sample(rare, 2 * len(rare) // count) if count < len(rare) else chance.sample(rare, 2)
        path, text = notes.edit_one(folder, number, f"{' '.join(some)}.")
        path.write_text(text, encoding="utf-8")


def _code(count: int) -> Iterator[tuple[str, bytes]]:
    chance, parts = random.Random("code"), _PARTS.split()
    names = list(permutations(parts, 2))
    chance.shuffle(names)
    for number, pair in enumerate(names[:count]):
        suffix = tuple(_CODE)[number % len(_CODE)]
        method, field = (_identifier(chance.sample(parts, 2), snake=suffix == "py") for _ in range(2))
        text = _CODE[suffix].format(type="".join(pair), method=method, field=field)
        yield f"code/old/{number:04d}.{suffix}", text.encode()


def _identifier(parts: Sequence[str], *, snake: bool) -> str:
    return "_".join(parts).lower() if snake else parts[0].lower() + "".join(parts[1:])


def _bytes(path: str, text: str) -> bytes:
    """Encode a file; a message is built from its headers and its body."""
    if not path.endswith(".eml"):
        return text.encode()
    head, _, body = text.partition("\n\n")
    message = EmailMessage()
    for line in head.splitlines():
        name, _, value = line.partition(": ")
        message[name] = value
    message.set_content(body)
    return message.as_bytes()


def _write(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    for path, data in files:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
