"""Pictures of pages: of which files, in which size and turn, and from which files none."""

from __future__ import annotations

import gzip
import struct
import time
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from catchment.content.pictures.drawing import count_pages, page_picture
from catchment.errors import ParseError, ResourceExhausted
from tests.engine.test_recognized_pages import png as plain
from tests.pictures.scans import many, png, scan, scanned
from tests.pictures.stand_in import page_words

TURNED = 0x0112


def drawn(data: bytes, media_type: str, number: int = 1, **options: Any) -> Image.Image:
    return Image.open(BytesIO(page_picture(data, media_type, number, **options)))


def exif(orientation: int) -> Image.Exif:
    made = Image.Exif()
    made[TURNED] = orientation
    return made


_GREY = scan("A legible page")


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (png(_GREY), "image/png"),
        (png(_GREY.convert("1")), "image/png"),
        (png(_GREY.convert("P")), "image/png"),
        (png(_GREY.convert("I;16").point(lambda value: value * 257)), "image/png"),
        (png(Image.merge("LA", (Image.new("L", _GREY.size, 0), _GREY.point(lambda value: 255 - value)))), "image/png"),
        (png(_GREY.convert("RGB"), format="JPEG"), "image/jpeg"),
        (png(_GREY.convert("CMYK"), format="JPEG"), "image/jpeg"),
        (png(_GREY, format="GIF"), "image/gif"),
        (png(_GREY, format="BMP"), "image/bmp"),
        (png(_GREY, format="WEBP"), "image/webp"),
        (png(_GREY, format="TIFF"), "image/tiff"),
        (png(_GREY.rotate(90, expand=True), format="JPEG", exif=exif(6)), "image/jpeg"),
        (png(_GREY.rotate(180, expand=True), format="JPEG", exif=exif(3)), "image/jpeg"),
        (png(scan("A legible page", size=(960, 480))), "image/png"),
        (png(scan("A legible page", size=(7680, 3840))), "image/png"),
        (scanned("A legible page"), "application/pdf"),
        (gzip.compress(gzip.compress(scanned("A legible page"))), "application/pdf"),
    ],
)
def test_page_is_drawn_upright_and_grey_on_white(data: bytes, media_type: str) -> None:
    picture = drawn(data, media_type)
    assert (picture.mode, picture.format) == ("L", "PNG")
    assert 1_600 <= max(picture.size) <= 5_000
    assert page_words(picture) == ["A", "legible", "page"]


@pytest.mark.parametrize("kind", ["TIFF", "PDF"])
def test_each_page_is_drawn_by_its_number(kind: str) -> None:
    data = many([scan(f"Page number {n}") for n in range(1, 4)], kind)
    media_type = {"TIFF": "image/tiff", "PDF": "application/pdf"}[kind]
    for number in (1, 2, 3):
        assert page_words(drawn(data, media_type, number)) == ["Page", "number", str(number)]
    with pytest.raises(ParseError):
        page_picture(data, media_type, 4)


def test_turned_page_is_drawn_smaller_for_the_browser() -> None:
    picture = drawn(png(scan("A page", turn=90)), "image/png", turn=90, longest=800)
    assert picture.size == (800, 400)


def test_page_beside_a_very_long_side_is_drawn() -> None:
    assert drawn(png(Image.new("L", (100_000, 3), 255)), "image/png").size == (5_000, 1)


@pytest.mark.parametrize(
    ("data", "media_type", "error"),
    [
        (plain(100_000, 30_000), "image/png", ResourceExhausted),
        (png(_GREY)[:2_000], "image/png", ParseError),
        (plain(4_000, 4_000)[:300], "image/png", ParseError),
        (png(_GREY, format="JPEG")[:900], "image/jpeg", ParseError),
        (b"II*\0", "image/tiff", ParseError),
        (b"", "image/png", ParseError),
        (b"%PDF-1.7\n", "application/pdf", ParseError),
        (scanned("x")[:400], "application/pdf", ParseError),
    ],
)
def test_hostile_picture_is_refused(data: bytes, media_type: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        page_picture(data, media_type, 1)


@pytest.mark.parametrize(
    ("pages", "after_the_last", "number"), [(3, 0, 3), (3, 8, 3), (999, 0, 999), (60_000, 0, 1_000)]
)
def test_pages_of_an_endless_tiff_are_counted_quickly(pages: int, after_the_last: int, number: int) -> None:
    data, began = tiff(pages, after_the_last), time.process_time()
    assert count_pages(data) == number
    assert time.process_time() - began < 5


def tiff(pages: int, after_the_last: int) -> bytes:
    """Return a TIFF of pages of one pixel. `after_the_last`: the place of its next page; 0 for none, 8 for the first."""
    tags = ((256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 8), (277, 1), (278, 1), (279, 1))
    page = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    length = len(page) + 4
    places = [8 + length * number for number in range(1, pages)] + [after_the_last]
    return b"II*\0" + struct.pack("<I", 8) + b"".join(page + struct.pack("<I", place) for place in places)
