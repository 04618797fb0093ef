"""Functions of PDFium that give text, as functions of Python."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def string(function: Callable[..., int], *arguments: Any) -> str:
    """Return the text that a function of PDFium writes into a buffer as UTF-16."""
    import pypdfium2.raw as pdfium

    size = function(*arguments, None, 0)
    if size <= len("\0".encode("utf-16-le")):
        return ""
    buffer = ctypes.create_string_buffer(size)
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", "replace").replace("\0", " ").strip()


def code_points(text: Any, places: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Yield these places of the text of a page, each with its character; a code beyond Unicode is the last one."""
    import pypdfium2.raw as pdfium

    for place in places:
        yield place, chr(min(pdfium.FPDFText_GetUnicode(text, place), sys.maxunicode))
