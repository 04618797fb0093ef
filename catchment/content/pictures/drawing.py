"""Pictures of pages: of a PDF or of an image file, grey and upright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING

from catchment.content.normalize.archives import inflated
from catchment.errors import ParseError, ResourceExhausted

if TYPE_CHECKING:
    from PIL.Image import Image

PDF = "application/pdf"
_GZIP = b"\x1f\x8b"
_DOTS_PER_INCH = 300
_LONGEST = 5_000
"""Pixels of the longer side. A larger picture is reduced; A4 with 300 dots per inch has 3,508."""
_SHORT = 1_600
"""Pixels of the longer side below which a picture is enlarged: the letters of a screenshot are too small otherwise."""
_MOST_PIXELS = 120_000_000
"""A picture is decoded as a whole, with up to four bytes for a pixel."""
_MOST_PAGES = 1_000


def page_picture(data: bytes, media_type: str, number: int, turn: int = 0, longest: int = _LONGEST) -> bytes:
    """Return a page of a PDF or of an image file as a grey PNG, turned by clockwise degrees.

    `longest`: most pixels of its longer side. Raises ParseError if it cannot be read, and ResourceExhausted if it has more than
    120 million pixels.
    """
    while data.startswith(_GZIP):
        data = inflated(data)
    page = _of_pdf(data, number) if media_type == PDF else _of_image(data, number)
    if turn:
        page = page.rotate(-turn, expand=True)
    # A picture that is turned was enlarged before.
    is_small = max(page.size) < _SHORT and media_type != PDF and not turn
    factor = min(longest / max(page.size), 2.0 if is_small else 1.0)
    if factor != 1:
        page = page.resize([max(1, round(side * factor)) for side in page.size], reducing_gap=2.0)
    written = BytesIO()
    page.save(written, "PNG", compress_level=1)
    return written.getvalue()


def refuse_large(width: int, height: int) -> None:
    """Raise ResourceExhausted if a picture of this size, in pixels, is too large to be decoded."""
    if width * height > _MOST_PIXELS:
        raise ResourceExhausted(f"the picture has {width:,} × {height:,} pixels; make it smaller")


def count_pages(data: bytes) -> int:
    """Return the number of pages of a TIFF, at most 1,000. Raises ParseError."""
    from PIL import ImageSequence

    with _opened(data) as picture:
        return sum(1 for _ in islice(ImageSequence.Iterator(picture), _MOST_PAGES))


def _of_pdf(data: bytes, number: int) -> Image:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        page = PdfDocument(data)[number - 1]
        scale = min(_DOTS_PER_INCH / 72, _LONGEST / max(1.0, *page.get_size()))
        rendered: Image = page.render(scale=scale, grayscale=True).to_pil()
    except (PdfiumError, IndexError) as error:
        raise ParseError(f"page {number} cannot be drawn") from error
    return rendered


def _of_image(data: bytes, number: int) -> Image:
    from PIL import Image, ImageOps

    with _opened(data) as picture:
        picture.seek(number - 1)
        refuse_large(*picture.size)
        picture.draft("L", (_LONGEST, _LONGEST))
        upright = ImageOps.exif_transpose(picture)
        if "A" in upright.getbands() or "transparency" in upright.info:
            ground = Image.new("RGBA", upright.size, "white")
            upright = Image.alpha_composite(ground, upright.convert("RGBA"))
        if upright.mode.startswith("I"):  # 16 bits
            upright = upright.convert("I").point(lambda value: value / 256)
        return upright.convert("L")


@contextmanager
def _opened(data: bytes) -> Iterator[Image]:
    from pi_heif import register_heif_opener
    from PIL import Image

    register_heif_opener(thumbnails=False)
    Image.MAX_IMAGE_PIXELS = None  # `_MOST_PIXELS` takes its place
    try:
        with Image.open(BytesIO(data)) as picture:
            yield picture
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise ParseError("the picture is damaged; fetch or export it again") from error
