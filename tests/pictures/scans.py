"""Pictures of pages with words that the substitute of Tesseract reads, and the substitute as the only installed program."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from tests.pictures import stand_in

_WORD = re.compile(r"(\n\n|\n| |^)(\S+)")
_SPACES = {"": b" ", " ": b" ", "\n": b"\n", "\n\n": b"\v"}


def scan(
    text: str, *, confidence: int = 93, language: str = "eng", turn: int = 0, size: tuple[int, int] = (1920, 960)
) -> Image.Image:
    """Return a picture of a page. `turn`: the clockwise degrees that make it upright."""
    rows = [stand_in.MARK + bytes((confidence,)) + language.encode()]
    rows += [_SPACES[space] + word.encode() for space, word in _WORD.findall(text)]
    assert len(rows) <= stand_in.ROWS
    page = Image.new("L", (8 * stand_in.BYTES, stand_in.ROWS), 255)
    for y, row in enumerate(rows):
        assert len(row) <= stand_in.BYTES, row
        for x in range(8 * len(row)):
            if row[x // 8] >> x % 8 & 1:
                page.putpixel((x, y), 0)
    return page.resize(size, Image.Resampling.NEAREST).rotate(turn, expand=True)


def png(page: Image.Image, **options: Any) -> bytes:
    """Return the bytes of a picture as a PNG, or in another `format`."""
    written = BytesIO()
    page.save(written, **{"format": "PNG"} | options)
    return written.getvalue()


def scanned(*pages: str) -> bytes:
    """Return a PDF of scanned pages."""
    return many([scan(page) for page in pages], "PDF")


def many(pages: Sequence[Image.Image], kind: str) -> bytes:
    """Return a file with several pages."""
    return png(pages[0], format=kind, save_all=True, append_images=pages[1:])


class Programs:
    """A folder as the whole PATH, with the substitute of Tesseract."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.install()

    def install(self) -> None:
        program = self.folder / "tesseract"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{stand_in.__file__}" "{self.folder}" "$@"\n')
        program.chmod(0o755)

    def remove(self) -> None:
        (self.folder / "tesseract").unlink(missing_ok=True)

    def calls(self) -> list[str]:
        """Return the options of each recognition so far."""
        calls = self.folder / "calls"
        return [line for line in calls.read_text().splitlines() if "stdin" in line] if calls.exists() else []
