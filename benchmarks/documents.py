"""A folder of generated PDFs with headings, paragraphs and tables, and `pdftotext` as the baseline.

`python -m benchmarks.documents FOLDER` runs the baseline. Prints JSON.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.notes import WORDS
from tests.normalize.pdf_samples import pdf, stream

COUNT = 300

_LEFT, _TOP, _BOTTOM, _LEADING = 60, 780, 60, 14
_WORDS_A_LINE = 12
_COLUMN = 150
_COLUMNS = (0, _COLUMN, 2 * _COLUMN)
_FONTS = b"/Font << /F1 4 0 R /F2 5 0 R >>"


def generate(folder: Path, count: int, seed: int = 1) -> int:
    """Write `count` PDFs of three to ten pages. Returns their total size in bytes."""
    folder.mkdir(parents=True)
    return sum(
        (folder / f"Report {number:04d}.pdf").write_bytes(_report(random.Random(f"{seed}/{number}"), number))
        for number in range(count)
    )


def _report(chance: random.Random, number: int) -> bytes:
    words = WORDS[chance.choice(("en", "en", "de", "fr", "es"))]
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        3: b"<< /Title (Report %d) /Author (Jo Keeper) >>" % number,
        4: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        5: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
    }
    pages = range(6, 6 + 2 * chance.randint(3, 10), 2)
    for page in pages:
        objects[page] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R /Resources << %s >> >>"
            % (page + 1, _FONTS)
        )
        content = b"\n".join(_page(chance, words, has_table=chance.random() < 0.3))
        objects[page + 1] = stream(zlib.compress(content), b"/Filter /FlateDecode")
    kids = b" ".join(b"%d 0 R" % page for page in pages)
    objects[2] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages))
    return pdf(objects)


def _page(chance: random.Random, words: Sequence[str], *, has_table: bool) -> Iterator[bytes]:
    """Yield the operators of a page: a heading, paragraphs, and a table with rules."""
    yield _line("F2", 16, _LEFT, _TOP, chance.choices(words, k=4))
    height = _TOP - 2 * _LEADING
    for _ in range(chance.randint(8, 16) if has_table else 0):
        for column in _COLUMNS:
            yield b"%d %d %d %d re S" % (_LEFT + column, height, _COLUMN, _LEADING)
            cell = [chance.choice(words), str(chance.randint(1, 9_999))]
            yield _line("F1", 10, _LEFT + column + 4, height + 4, cell)
        height -= _LEADING
    while height > _BOTTOM:
        height -= _LEADING
        for _ in range(min(chance.randint(3, 9), (height - _BOTTOM) // _LEADING)):
            yield _line("F1", 10, _LEFT, height, chance.choices(words, k=_WORDS_A_LINE))
            height -= _LEADING


def _line(font: str, size: int, left: int, height: int, words: Sequence[str]) -> bytes:
    text = " ".join(words).encode("cp1252")
    return b"BT /%s %d Tf %d %d Td (%s) Tj ET" % (font.encode(), size, left, height, text)


def require(program: str, package: str) -> bool:
    """Return whether a program is installed; print the name of its Debian package if not."""
    if shutil.which(program) is None:
        print(f"{program}: not installed, so PDFs are not compared with it; run: apt install {package}")
        return False
    return True


def loop(folder: Path) -> dict[str, float]:
    """Convert each file to text by a process of its own, one after the other."""
    start = time.perf_counter()
    files = sorted(folder.glob("*.pdf"))
    size = sum(len(subprocess.run(["pdftotext", file, "-"], check=True, capture_output=True).stdout) for file in files)
    return {"seconds": time.perf_counter() - start, "documents": len(files), "text_bytes": size}


if __name__ == "__main__":
    print(json.dumps(loop(Path(sys.argv[1]))))
