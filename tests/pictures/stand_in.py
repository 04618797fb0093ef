"""A substitute of Tesseract, run as a program: `stand_in.py FOLDER` and Tesseract's arguments, with the picture on stdin.

It reads the words that `scans` has drawn as rows of black and white cells, so its answer depends on the picture alone: a page
on its side is nonsense with a low confidence, and a page in another language than those of `-l` loses its accents. Each call
is a line in FOLDER/calls. A word of the page can order an accident: see `_ACCIDENTS`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path

from PIL import Image

ROWS, BYTES = 48, 48
"""A page has a row for each word, after one for the mark, the confidence and the language."""
MARK = b"OCR"
LANGUAGES = ("deu", "eng", "fra", "osd")
_QUARTERS = (0, 90, 180, 270)
_NONSENSE = 31.0
_COLUMNS = "level page_num block_num par_num line_num word_num left top width height conf text".replace(" ", "\t")


def main(folder: Path, options: list[str]) -> int:
    """Answer a call, and return the exit code."""
    with (folder / "calls").open("a") as calls:
        calls.write(" ".join(options) + "\n")
    if options == ["--version"]:
        print("tesseract 5.3.0-substitute\n leptonica-1.82.0")
        return 0
    if options == ["--list-langs"]:
        print('List of available languages in "/usr/share/tessdata/" (4):', *LANGUAGES, sep="\n")
        return 0
    picture = Image.open(BytesIO(sys.stdin.buffer.read())).convert("L")
    turn, rows = _read(picture)
    for row in rows[1:]:
        if accident := _ACCIDENTS.get(row[1:].decode()):
            accident(folder)
    if options[-2:] == ["--psm", "0"]:
        if len(rows) < 2:
            print("Too few characters. Skipping this page\nError during processing.", file=sys.stderr)
            return 1
        print(f"Page number: 0\nOrientation in degrees: {-turn % 360}\nRotate: {turn}\nOrientation confidence: 9.36")
        print("Script: Latin\nScript confidence: 7.14")
        return 0
    known = options[options.index("-l") + 1].split("+")
    page = f"1\t1\t0\t0\t0\t0\t0\t0\t{picture.width}\t{picture.height}\t-1\t"
    print(_COLUMNS, page, *_lines(picture, turn, rows, known), sep="\n")
    return 0


def _read(picture: Image.Image) -> tuple[int, list[bytes]]:
    """Return the clockwise degrees that make a page upright, and its rows; none if it has no words."""
    for turn in _QUARTERS:
        upright = picture.rotate(-turn, expand=True)
        rows = [_row(upright, row) for row in range(ROWS)]
        if rows[0].startswith(MARK):
            return turn, [row for row in rows if row]
    return 0, []


def page_words(picture: Image.Image) -> list[str]:
    """Return the words of an upright page."""
    turn, rows = _read(picture)
    assert turn == 0
    return [row[1:].decode() for row in rows[1:]]


def _row(picture: Image.Image, row: int) -> bytes:
    y = (2 * row + 1) * picture.height // (2 * ROWS)
    bits = [picture.getpixel(((2 * x + 1) * picture.width // (16 * BYTES), y)) < 128 for x in range(8 * BYTES)]
    return bytes(sum(bit << n for n, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8)).rstrip(
        b"\0"
    )


def _lines(picture: Image.Image, turn: int, rows: list[bytes], known: list[str]) -> Iterator[str]:
    """Return a line for each word. The first byte of its row is the space before it: of a word, a line or a paragraph."""
    paragraph = line = word = 1
    for number, row in enumerate(rows[1:], 1):
        text = row[1:].decode()
        match row[:1]:
            case b"\v":
                paragraph, line, word = paragraph + 1, 1, 1
            case b"\n":
                line, word = line + 1, 1
        confidence = float(rows[0][len(MARK)])
        if rows[0][len(MARK) + 1 :].decode() not in known:
            text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
        if turn:
            text, confidence = text[::-1], _NONSENSE
        place = 0, number * picture.height // ROWS, len(row) * picture.width // BYTES, picture.height // ROWS
        yield "\t".join(map(str, (5, 1, 1, paragraph, line, word, *place, confidence, text)))
        word += 1


def _swell(_: Path) -> None:
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 20)) * 16)


_ACCIDENTS: Mapping[str, Callable[[Path], object]] = {
    "!fail": lambda _: sys.exit("Error during processing."),
    "!stall": lambda _: time.sleep(3_600),
    "!slow": lambda _: time.sleep(3),
    "!swell": _swell,
    "!die": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "!kill": lambda _: os.kill(os.getppid(), signal.SIGKILL),
    "!remove": lambda folder: (folder / "tesseract").unlink(),
}
"""By its word, what happens before the answer: `!die` ends this program, `!kill` the process that calls it."""

if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
